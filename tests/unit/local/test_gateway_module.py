import os
import shutil
import tomllib

import pytest

from modelplane.host.errors import LocalError
from modelplane.local import gateway_module


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("MODELPLANE_GATEWAY_MODULE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def without_cargo(monkeypatch):
    monkeypatch.setenv("PATH", "")


def test_the_environment_variable_names_the_library(tmp_path, monkeypatch):
    library = tmp_path / "library.so"
    monkeypatch.setenv("MODELPLANE_GATEWAY_MODULE", str(library))
    with pytest.raises(
        LocalError, match=r"^MODELPLANE_GATEWAY_MODULE names .*library.so, which is not a file$"
    ):
        gateway_module.find()
    library.touch()
    assert gateway_module.find() == library


@pytest.mark.usefixtures("without_cargo")
def test_the_repository_carries_the_library_of_its_sources_so_nobody_needs_cargo():
    for machine in ("x86_64", "aarch64"):
        assert gateway_module.find_carried(machine) is not None, (
            "run `make gateway-module`, and commit its result"
        )
    assert gateway_module.find() == gateway_module.BUILT / os.uname().machine / gateway_module.LIBRARY


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """A crate that differs from the one whose library the repository carries."""
    sources = tmp_path / "crate"
    (sources / "src").mkdir(parents=True)
    (sources / "Cargo.toml").write_text("manifest")
    monkeypatch.setattr(gateway_module, "SOURCES", sources)


@pytest.mark.usefixtures("edited")
def test_the_library_of_other_sources_is_not_used():
    assert gateway_module.find() is None


def test_an_altered_library_is_refused_and_never_loaded(tmp_path, monkeypatch):
    altered = tmp_path / "built"
    shutil.copytree(gateway_module.BUILT, altered)
    (altered / "x86_64" / gateway_module.LIBRARY).write_bytes(b"\x7fELF")
    monkeypatch.setattr(gateway_module, "BUILT", altered)
    with pytest.raises(LocalError, match=r"^\S+ doesn't match its record in record.json:"):
        gateway_module.find_carried("x86_64")


@pytest.mark.usefixtures("without_cargo", "edited")
def test_without_cargo_the_error_says_what_to_install():
    assert (gateway_module.find(), gateway_module.can_build()) == (None, False)
    with pytest.raises(
        LocalError, match=r"`cargo` from Rust 1\.88 or later: install both, or set MODELPLANE_"
    ):
        gateway_module.find_or_build(lambda _progress: None)


def test_an_installation_without_sources_has_the_library_of_its_wheel_only(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway_module, "SOURCES", tmp_path / "absent")
    monkeypatch.setattr(gateway_module, "_PACKAGE", tmp_path / "modelplane")
    assert gateway_module.find() is None
    shipped = tmp_path / "modelplane" / "_bin" / gateway_module.LIBRARY
    shipped.parent.mkdir(parents=True)
    shipped.touch()
    assert gateway_module.find() == shipped


def test_the_crate_pins_each_dependency_exactly_because_there_is_no_lock_file():
    manifest = tomllib.loads((gateway_module.SOURCES / "Cargo.toml").read_text())
    versions = [
        each if isinstance(each, str) else each["version"] for each in manifest["dependencies"].values()
    ]
    assert [each for each in versions if not each.startswith("=")] == []


@pytest.mark.parametrize("is_locked", [True, False], ids=["locked", "not locked"])
def test_the_lock_of_a_release_decides_the_crates(tmp_path, monkeypatch, is_locked):
    sources, programs = tmp_path / "crate", tmp_path / "bin"
    (sources / "src").mkdir(parents=True)
    programs.mkdir()
    (sources / "Cargo.toml").write_text("manifest")
    if is_locked:
        (sources / "Cargo.lock").write_text("lock")
    cargo = programs / "cargo"
    cargo.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/said; ls >> {tmp_path}/said\n'
        f"mkdir -p {tmp_path}/products/release; : > {tmp_path}/products/release/{gateway_module.LIBRARY}\n"
    )
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(gateway_module, "SOURCES", sources)
    assert gateway_module.read_manifests() == ["manifest", *(["lock"] if is_locked else [])]
    target = tmp_path / "built" / gateway_module.LIBRARY
    gateway_module.compile_to(target, tmp_path / "products", ["build", "--release"], lambda _progress: None)
    command, *files = (tmp_path / "said").read_text().splitlines()
    assert ("--locked" in command.split()) is is_locked
    assert ("Cargo.lock" in files) is is_locked
    assert target.exists()
