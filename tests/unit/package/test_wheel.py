"""What the wheels carry, built as ``package/wheel.py`` and pip build them."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from modelplane import __version__

ROOT = Path(__file__).parents[3]
PROGRAM = "modelplane/_bin/modelplane-kubernetes"


def elf(machine):
    return b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + b"the rest"


def build(folder, program=b"", module=b""):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MODELPLANE_WHEEL_")
    }
    if program:
        path = folder / "program"
        path.write_bytes(program)
        path.chmod(0o700)
        environment["MODELPLANE_WHEEL_BINARY"] = str(path)
    if module:
        path = folder / "libmodelplane_gateway.so"
        path.write_bytes(module)
        environment["MODELPLANE_WHEEL_MODULE"] = str(path)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(folder / "dist"),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def wheel(folder, program=b"", module=b""):
    done = build(folder, program, module)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "dist").iterdir()
    return path


@pytest.mark.parametrize(
    ("machine", "platform"),
    [
        pytest.param(62, "manylinux_2_17_x86_64.musllinux_1_1_x86_64", id="x86-64"),
        pytest.param(183, "manylinux_2_17_aarch64.musllinux_1_1_aarch64", id="64-bit Arm"),
    ],
)
def test_a_wheel_with_the_binary_is_for_the_machines_on_which_it_runs(tmp_path, machine, platform):
    path = wheel(tmp_path, elf(machine))
    assert path.name == f"modelplane-{__version__}-py3-none-{platform}.whl"
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(PROGRAM)
        assert (archive.read(entry), entry.external_attr >> 16 & 0o777) == (elf(machine), 0o755)
        assert "Root-Is-Purelib: false" in archive.read(f"modelplane-{__version__}.dist-info/WHEEL").decode()


@pytest.mark.parametrize(
    ("needed", "platform"),
    [
        pytest.param(b"\0GLIBC_2.3.4\0GLIBC_2.17\0", "manylinux_2_17", id="an old C library is enough"),
        pytest.param(b"\0GLIBC_2.34\0GLIBC_2.4\0", "manylinux_2_34", id="a newer C library is needed"),
    ],
)
def test_a_wheel_with_the_gateways_module_is_for_the_c_library_that_it_needs(tmp_path, needed, platform):
    path = wheel(tmp_path, elf(62), elf(62) + needed)
    assert path.name == f"modelplane-{__version__}-py3-none-{platform}_x86_64.musllinux_1_1_x86_64.whl"
    with zipfile.ZipFile(path) as archive:
        assert archive.read("modelplane/_bin/libmodelplane_gateway.so") == elf(62) + needed


def test_a_wheel_without_the_binary_is_pure_and_has_its_sources(tmp_path):
    path = wheel(tmp_path)
    assert path.name == f"modelplane-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    sources = {f"modelplane/_kubernetes/{each.name}" for each in (ROOT / "kubernetes").iterdir()}
    assert (PROGRAM in names, sources - names) == (False, set())


def test_a_wheel_has_the_examples_as_they_are(tmp_path):
    folder = ROOT / "examples"
    with zipfile.ZipFile(wheel(tmp_path)) as archive:
        place = "modelplane/_examples/"
        shipped = {
            name.removeprefix(place): archive.read(name)
            for name in archive.namelist()
            if name.startswith(place)
        }
    assert shipped == {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_what_is_no_program_for_linux_is_no_binary(tmp_path):
    done = build(tmp_path, b"#!/bin/sh")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == (
        f"ValueError: {tmp_path}/program is no program for Linux on x86_64 or aarch64"
    )
