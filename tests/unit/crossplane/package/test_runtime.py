import importlib.metadata
import tarfile

import pytest

from modelplane.crossplane.package import runtime
from modelplane.crossplane.package.oci import Blobs, this_platform


@pytest.fixture
def image(tmp_path, monkeypatch):
    """The runtime of a Python of two files, and one distribution beside Modelplane's."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "os.py").touch()
    (tmp_path / "python").write_bytes(b"#!")
    python = runtime.Interpreter(tmp_path / "python", tmp_path / "lib", "3.12")
    found = tuple(importlib.metadata.distribution(name) for name in ("modelplane", "click"))
    monkeypatch.setattr(runtime, "running", lambda: python)
    monkeypatch.setattr(runtime, "required", lambda: found)
    monkeypatch.setattr(runtime, "libraries", lambda _files, _folder: ())
    return runtime.from_this_python(Blobs(tmp_path / "blobs"))


def test_it_starts_the_function_as_nobody_in_particular(image):
    environment = dict(each.split("=", 1) for each in image.config.pop("Env"))
    assert image.config == {
        "Cmd": ["function"],
        "Entrypoint": ["/usr/local/bin/python3.12", "-m", "modelplane.cli.main"],
        "ExposedPorts": {"9443/tcp": {}},
        "User": "65532:65532",
        "WorkingDir": "/",
    }
    assert (environment["PYTHONPATH"], environment["LD_LIBRARY_PATH"]) == ("/app", "/usr/local/lib")


def test_it_is_for_this_machine(image):
    assert image.platform == this_platform()


def test_what_changes_most_is_uppermost(image, tmp_path):
    folders = []
    for layer in image.layers:
        with tarfile.open(Blobs(tmp_path / "blobs").path(layer.blob.digest)) as archive:
            folders.append({name for name in archive.getnames() if name.count("/") < 2})
    assert "app/click" in folders[1]
    assert folders[2] >= {"app", "app/modelplane"}
    assert folders[0] >= {"etc/passwd", "tmp", "usr/local"}
    assert not any(name.startswith("app") for name in folders[0])
