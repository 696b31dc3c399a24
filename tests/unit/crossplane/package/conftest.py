"""Packages of a small runtime, and what is in them."""

import json
import tarfile
from pathlib import Path

import pytest

from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.metadata import Registry
from modelplane.crossplane.package.package_contents import configuration, function
from support.packages import VERSION, small_runtime


@pytest.fixture
def function_package(tmp_path) -> Path:
    """The function's package in a file."""
    return build(function(), Registry(), VERSION, tmp_path, small_runtime).path


@pytest.fixture
def configuration_package(tmp_path) -> Path:
    """The Configuration's package in a file."""
    return build(configuration(Registry(), VERSION), Registry(), VERSION, tmp_path).path


@pytest.fixture
def members():
    """Read the members of a tar file: name to content."""

    def read(path: Path) -> dict[str, bytes]:
        with tarfile.open(path, "r:") as archive:
            return {each.name: archive.extractfile(each).read() for each in archive if each.isfile()}

    return read


@pytest.fixture
def rewritten(tmp_path, members):
    """Write a tar file anew with other members; None takes one away."""

    def write(path: Path, changes: dict[str, bytes | None]) -> Path:
        found = members(path) | changes
        folder = tmp_path / "rewritten"
        for name, content in found.items():
            if content is not None:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        copy = tmp_path / "rewritten.xpkg"
        with tarfile.open(copy, "w") as archive:
            for child in sorted(folder.iterdir()):
                archive.add(child, child.name)
        return copy

    return write


@pytest.fixture
def blob(members):
    """Read a blob of a package, a document or bytes."""

    def read(path: Path, descriptor: dict) -> bytes:
        return members(path)[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]

    return read


@pytest.fixture
def manifest(members, blob):
    """Read the manifest of a package."""

    def read(path: Path) -> dict:
        [descriptor] = json.loads(members(path)["index.json"])["manifests"]
        return json.loads(blob(path, descriptor))

    return read
