"""Files of a stored image: members of a tar file, or files of a folder.

One rule: a missing, too large or malformed file gives an error of one sentence.
"""

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from modelplane.crossplane.package.errors import PackageError

_LARGEST_DOCUMENT = 16 << 20


class Files(Protocol):
    """Files by name."""

    @property
    def path(self) -> Path:
        """The path of the tar file or folder."""

    def find(self, name: str) -> IO[bytes] | None:
        """Open a file; None if there is none of this name."""


@dataclass(frozen=True, slots=True)
class _Tar:
    path: Path
    archive: tarfile.TarFile
    members: dict[str, tarfile.TarInfo]

    def find(self, name: str) -> IO[bytes] | None:
        member = self.members.get(name)
        return self.archive.extractfile(member) if member else None


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path

    def find(self, name: str) -> IO[bytes] | None:
        file = self.path / name
        inside = file.resolve().is_relative_to(self.path.resolve())
        return file.open("rb") if inside and file.is_file() else None


@contextmanager
def opened(path: Path) -> Iterator[Files]:
    """Open a tar file or a folder."""
    if path.is_dir():
        yield _Folder(path)
        return
    with _tar(path) as archive:
        try:
            members = {_plain(member.name): member for member in archive if member.isfile()}
        except tarfile.ReadError as error:
            raise damaged(path, "it ends too early") from error
        yield _Tar(path, archive, members)


def _tar(path: Path) -> tarfile.TarFile:
    try:
        # A compressed tar file is not an image.
        return tarfile.open(path, "r:")
    except tarfile.ReadError as error:
        raise no_image(path) from error
    except OSError as error:
        raise PackageError(f'cannot read "{path}": {error.strerror or error}') from error


def _plain(name: str) -> str:
    return name.removeprefix("./")


@contextmanager
def required(files: Files, name: str) -> Iterator[IO[bytes]]:
    """Open a file that another one names."""
    found = files.find(name)
    if found is None:
        raise damaged(files.path, f"{name} is missing")
    with found:
        yield found


def read(files: Files, name: str) -> bytes:
    """Return the content of a document."""
    with required(files, name) as file:
        content = file.read(_LARGEST_DOCUMENT + 1)
    if len(content) > _LARGEST_DOCUMENT:
        raise damaged(files.path, f"{name} is larger than {_LARGEST_DOCUMENT >> 20} MiB")
    return content


def parsed(files: Files, name: str, content: bytes) -> Any:
    """Return a document's JSON."""
    try:
        return json.loads(content)
    except ValueError as error:
        raise damaged(files.path, f"{name} is not JSON: {error}") from error


@contextmanager
def well_formed(files: Files, name: str) -> Iterator[None]:
    """Turn a failed lookup within a document into a sentence about it."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged(
            files.path, f"{name} is not as it should be: {type(error).__name__}: {error}"
        ) from error


def damaged(path: Path, what: str) -> PackageError:
    """Return the error for a truncated or modified file."""
    return PackageError(f'"{path}" is damaged: {what}: fetch or build it again')


def no_image(path: Path) -> PackageError:
    """Return the error for a file of another format."""
    return PackageError(
        f'"{path}" is not an image: it is not an OCI image layout, a folder or an uncompressed tar file: '
        "write it with `podman save --format oci-archive`, or with `docker save` of Docker 25 or later"
    )
