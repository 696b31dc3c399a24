"""What the loader of this machine answers, and what is made of it."""

import subprocess
from pathlib import Path

import pytest

from modelplane.crossplane.package import runtime
from modelplane.crossplane.package.oci import File
from modelplane.crossplane.package.runtime import libraries
from modelplane.user_error import UserError


@pytest.fixture
def elf(tmp_path):
    """Make a file that begins like a program."""

    def make(name):
        path = tmp_path / name
        path.write_bytes(b"\x7fELF...")
        return path

    return make


def _answering(monkeypatch, text):
    def run(command, **_options):
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(subprocess, "run", run)


def test_the_running_python_needs_a_loader_and_the_c_library():
    python = runtime.running()
    found = libraries([File("usr/local/bin/python", python.executable)], "usr/local/lib")
    assert "usr/local/lib/libc.so.6" in {file.path for file in found}
    [loader] = [file for file in found if file.executable]
    assert loader.path.startswith("lib")


def test_libraries_go_to_one_folder_and_the_loader_to_its_own_place(monkeypatch, elf):
    program, library, loader = elf("program"), elf("libssl.so.3"), elf("ld.so")
    _answering(
        monkeypatch,
        "\tlinux-vdso.so.1 (0x00007ffd0)\n"
        f"\tlibssl.so.3 => {library} (0x00007f10)\n"
        f"\t{loader} (0x00007f20)\n",
    )
    assert libraries([File("bin/x", program)], "lib") == tuple(
        sorted(
            [File("lib/libssl.so.3", library), File(str(loader)[1:], loader, executable=True)],
            key=lambda file: file.path,
        )
    )


def test_a_library_that_is_already_in_the_image_stays_where_it_is(monkeypatch, elf):
    module, bundled = elf("module.so"), elf("libbundled.so.1")
    _answering(
        monkeypatch, f"{module}:\n\tlibbundled.so.1 => {bundled} (0x1)\n{bundled}:\n\tstatically linked\n"
    )
    assert libraries([File("app/module.so", module), File("app/libs/b.so", bundled)], "lib") == ()


def test_a_library_that_is_missing_is_named_with_who_needs_it(monkeypatch, elf):
    first, second = elf("first"), elf("second")
    _answering(monkeypatch, f"{first}:\n\tstatically linked\n{second}:\n\tlibgone.so.1 => not found\n")
    with pytest.raises(
        UserError, match=f"{second} needs the library libgone.so.1, and this machine has none"
    ):
        libraries([File("a", first), File("b", second)], "lib")


def test_two_libraries_of_one_name_are_refused(monkeypatch, elf, tmp_path):
    (tmp_path / "other").mkdir()
    one, two = elf("libx.so"), elf("other/libx.so")
    program = elf("program")
    _answering(monkeypatch, f"\tlibx.so => {one} (0x1)\n\tlibx.so => {two} (0x1)\n")
    with pytest.raises(UserError, match=r"there are two libraries libx\.so"):
        libraries([File("bin/x", program)], "lib")


def test_what_is_no_program_is_not_asked_about(monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", None)
    text = tmp_path / "text.py"
    text.write_text("x = 1\n")
    assert libraries([File("a", text), File("b", b"\x7fELF")], "lib") == ()


def test_without_ldd_another_way_is_named(monkeypatch, elf):
    monkeypatch.setenv("PATH", str(Path("/nowhere")))
    with pytest.raises(UserError, match=r"there is no ldd here.*--runtime-image"):
        libraries([File("bin/x", elf("program"))], "lib")
