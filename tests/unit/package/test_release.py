"""The parts of ``make release``: checksums, reproducible distributions, and the bill of materials."""

import importlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NEEDLESS = "MODELPLANE_WHEEL_"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the folder of scripts."""
    monkeypatch.syspath_prepend(str(ROOT / "package"))
    return importlib.import_module


@pytest.fixture
def release(package: Any) -> Any:
    return package("release")


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_checksums_are_those_that_sha256sum_checks(release: Any, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.whl", "a.xpkg")]
    for each in files:
        each.write_text(each.name)
    assert release.write_checksums(tmp_path, files) == tmp_path / "SHA256SUMS"
    assert checked(tmp_path).stdout == "a.xpkg: OK\nb.whl: OK\n"
    files[0].write_text("other")
    assert checked(tmp_path).returncode == 1


def test_a_release_removes_the_files_of_the_former_one_and_no_others(release: Any, tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    for path in (folder / "old.whl", folder / "mine.whl", tmp_path / "beside"):
        path.touch()
    lines = ("0  old.whl", "0  gone.whl", "0  ../beside", "no checksum")
    (folder / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    release.remove_former(folder)
    release.remove_former(folder)
    assert [each.name for each in folder.iterdir()] == ["mine.whl"]
    assert (tmp_path / "beside").exists()


def elf(machine: int) -> bytes:
    return b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + b"the rest"


@pytest.mark.parametrize(
    ("target", "machine", "name"),
    [
        pytest.param("wheel", 62, "-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl", id="x86-64"),
        pytest.param("wheel", 183, "-py3-none-manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl", id="Arm"),
        pytest.param("sdist", 0, ".tar.gz", id="source distribution"),
    ],
)
def test_the_time_of_the_release_decides_the_bytes(
    release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, machine: int, name: str
) -> None:
    program = tmp_path / "program"
    program.write_bytes(elf(machine))
    carried = {release.PROGRAM: str(program)} if machine else {}
    found = {}
    for each, epoch in (("first", "1700000000"), ("second", "1700000000"), ("later", "1800000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        (tmp_path / each).mkdir()
        built = release.distribution(target, tmp_path / each, tmp_path / f"{each}-scratch", carried)
        assert built.name.endswith(name)
        found[each] = built.read_bytes()
    assert found["first"] == found["second"]
    assert found["first"] != found["later"]


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_source_distribution_makes_the_same_wheel_as_the_repository(release: Any, tmp_path: Path) -> None:
    source = release.distribution("sdist", tmp_path, tmp_path / "scratch", {})
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [unpacked] = (tmp_path / "source").iterdir()
    assert not {"tests", ".ci"} & {each.name for each in unpacked.iterdir()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NEEDLESS)}
    wheels: list[Path] = []
    for number, folder in enumerate((ROOT, unpacked)):
        target = tmp_path / f"wheel-{number}"
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(target),
        ]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        wheels += target.iterdir()
    assert contents(wheels[1]) == contents(wheels[0])


def test_a_missing_standard_library_of_rust_is_said_with_the_remedy(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = package("cross_builds")
    for name in ("rustc", "cargo"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {tmp_path}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "lib" / "rustlib" / "x86_64-unknown-linux-gnu").mkdir(parents=True)
    assert {machine.name: builds.missing(machine) for machine in builds.MACHINES} == {
        "x86_64": "",
        "aarch64": (
            "Rust has no standard library for aarch64-unknown-linux-gnu: run "
            "`rustup target add aarch64-unknown-linux-gnu`"
        ),
    }


def test_the_modules_of_a_binary_are_those_that_were_compiled(package: Any) -> None:
    printed = (
        "program: go1.26.0\n\tpath\texample.org/program\n\tmod\texample.org/program\t(devel)\t\n"
        "\tdep\texample.org/a\tv1.0.0\th1:x=\n\tdep\texample.org/b\tv1.0.0\n\t=>\texample.org/c\tv2.0.0\th1:y=\n"
        "\tbuild\t-trimpath=true\n"
    )
    found = [each["purl"] for each in package("bill_of_materials").go_modules(printed)]
    assert found == ["pkg:golang/example.org/a@v1.0.0", "pkg:golang/example.org/c@v2.0.0"]


def test_crates_have_their_licenses(package: Any) -> None:
    lines = ("modelplane-gateway v0.7.0 (/here)\tApache-2.0", "b v1.0.0\tMIT/Apache-2.0", "a v2.0.0\tMIT")
    printed = "\n".join((*lines, lines[1], ""))
    found = [(each["purl"], each["licenses"]) for each in package("bill_of_materials").crates(printed)]
    assert found == [
        ("pkg:cargo/a@2.0.0", [{"expression": "MIT"}]),
        ("pkg:cargo/b@1.0.0", [{"expression": "MIT OR Apache-2.0"}]),
    ]


def test_a_bill_keeps_its_packages(package: Any) -> None:
    bill = {"bomFormat": "CycloneDX", "components": [{"name": "a"}]}
    assert package("bill_of_materials").extended(bill, [{"name": "b"}]) == {
        "bomFormat": "CycloneDX",
        "components": [{"name": "a"}, {"name": "b"}],
    }
    assert bill["components"] == [{"name": "a"}]
