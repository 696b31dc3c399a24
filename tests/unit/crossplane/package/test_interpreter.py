import sys

import pytest

from modelplane.crossplane.package import runtime
from modelplane.user_error import UserError


def test_the_running_python_is_found_from_within_a_virtual_environment():
    found = runtime.running()
    assert found.version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found.executable.read_bytes()[:4] == b"\x7fELF"
    assert (found.library / "os.py").is_file()


def test_tests_caches_tools_and_other_installations_are_left_out(tmp_path):
    kept = ["os.py", "json/__init__.py", "lib-dynload/_ssl.so", "unittest/mock.py"]
    left = [
        "__pycache__/os.pyc",
        "config-3.12-x86_64-linux-gnu/libpython3.12.a",
        "idlelib/idle.py",
        "lib-dynload/_testcapi.so",
        "lib-dynload/readline.so",
        "site-packages/pip/__init__.py",
        "test/test_os.py",
        "unittest/test/test_mock.py",
    ]
    for name in kept + left:
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "lib" / "gone.py").symlink_to("nowhere")
    found = runtime.Interpreter(tmp_path / "python", tmp_path / "lib", "3.12")
    files = list(found.files("usr/local"))
    assert sorted(file.path for file in files) == sorted(
        ["usr/local/bin/python3.12", *(f"usr/local/lib/python3.12/{name}" for name in kept)]
    )
    assert [file.path for file in files if file.executable] == [found.executable_in("usr/local")]


def test_a_python_of_another_system_is_no_runtime(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="it is for darwin, and images are for Linux"):
        runtime.running()
