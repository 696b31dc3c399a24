"""OCI image layouts: ``index.json`` names a manifest, which names a config and layers, each by its digest.

One rule: a missing, too large or malformed file gives an error of one sentence.
"""

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from modelplane.crossplane.package.oci import (
    CHUNK,
    INDEX,
    LAYERS,
    OCI_LAYOUT,
    Descriptor,
    Image,
    Json,
    Layer,
    MediaType,
    Platform,
    name_blob,
    this_platform,
)
from modelplane.user_error import UserError

_LARGEST_DOCUMENT = 16 << 20


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


Files = _Tar | _Folder
"""Files by name."""


@contextmanager
def opened(path: Path) -> Iterator[Files]:
    """Open a tar file or a folder."""
    if path.is_dir():
        yield _Folder(path)
        return
    with _tar(path) as archive:
        try:
            members = {member.name.removeprefix("./"): member for member in archive if member.isfile()}
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
        raise UserError(f'cannot read "{path}": {error.strerror or error}') from error


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


def parse_document(files: Files, name: str, content: bytes) -> Any:
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


def damaged(path: Path, what: str) -> UserError:
    """Return the error for a truncated or modified file."""
    return UserError(f'"{path}" is damaged: {what}: fetch or build it again')


def no_image(path: Path) -> UserError:
    """Return the error for a file of another format."""
    return UserError(
        f'"{path}" is not an image: it is not an OCI image layout, a folder or an uncompressed tar file: '
        "write it with `podman save --format oci-archive`, or with `docker save` of Docker 25 or later"
    )


_DEEPEST = 4
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_DOCKER = "application/vnd.docker."
_MEDIA_TYPES: dict[str, str] = {
    f"{_DOCKER}distribution.manifest.list.v2+json": MediaType.INDEX,
    f"{_DOCKER}distribution.manifest.v2+json": MediaType.MANIFEST,
    f"{_DOCKER}container.image.v1+json": MediaType.CONFIG,
    f"{_DOCKER}image.rootfs.diff.tar": MediaType.TAR,
    f"{_DOCKER}image.rootfs.diff.tar.gzip": MediaType.TAR_GZIP,
}
"""Docker's names for the same formats."""


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One image, and the files of its layers."""

    files: Files
    image: Image

    @contextmanager
    def layer(self, number: int) -> Iterator[IO[bytes]]:
        """Open one layer as stored."""
        with required(self.files, name_blob(self.image.layers[number].blob)) as file:
            yield file

    @contextmanager
    def tar(self, number: int) -> Iterator[IO[bytes]]:
        """Open one layer as a tar stream; damage raises an error."""
        media_type = self.image.layers[number].blob.media_type
        if media_type == MediaType.TAR_ZSTD:
            raise UserError(
                f'cannot look into {self._title(number)} of "{self.files.path}": it is compressed with zstd: '
                "write the image with gzip"
            )
        with self.layer(number) as file:
            if media_type == MediaType.TAR:
                yield file
                return
            try:
                yield cast("IO[bytes]", gzip.GzipFile(fileobj=file))
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                what = f"{self._title(number)} cannot be unpacked: {error}"
                raise damaged(self.files.path, what) from error

    def verify(self) -> None:
        """Check the digest and the size of each layer, and the digest of its content."""
        for number, layer in enumerate(self.image.layers):
            with self.layer(number) as file:
                _check(self.files, self._title(number), layer.blob, file)
            if layer.blob.media_type == MediaType.TAR_ZSTD:
                continue
            with self.tar(number) as content:
                digest, _ = _measure(content)
            if digest != layer.diff_id:
                what = f"{self._title(number)} unpacks to {digest} where its config says {layer.diff_id}"
                raise damaged(self.files.path, what)

    def _title(self, number: int) -> str:
        return f"layer {number + 1} of {len(self.image.layers)}"


@contextmanager
def open_image(path: Path) -> Iterator[StoredImage]:
    """Open the one image of a layout, a file or a folder, or the one for this machine."""
    with opened(path) as files:
        marker = files.find(OCI_LAYOUT)
        if marker is None:
            raise no_image(path)
        marker.close()
        yield StoredImage(files, _read_image(files))


def _read_image(files: Files) -> Image:
    descriptor = _choose(files, parse_document(files, INDEX, read(files, INDEX)))
    manifest = _document(files, descriptor)
    with well_formed(files, f"manifest {descriptor.digest}"):
        config_descriptor = _descriptor(manifest["config"])
        blobs = tuple(_descriptor(layer) for layer in manifest["layers"])
    config = _document(files, config_descriptor)
    with well_formed(files, "the image's config"):
        diff_ids = tuple(str(item) for item in config["rootfs"]["diff_ids"])
        platform = Platform(config["architecture"], config["os"], config.get("variant", ""))
        started: Json = config.get("config") or {}
    if len(diff_ids) != len(blobs):
        raise damaged(
            files.path, f"its config speaks of {len(diff_ids)} layers and its manifest of {len(blobs)}"
        )
    unknown = sorted({blob.media_type for blob in blobs} - set(LAYERS))
    if unknown:
        raise UserError(f'cannot read "{files.path}": a layer is {unknown[0]}, which is not a tar file')
    return Image(platform, started, tuple(map(Layer, blobs, diff_ids)))


def _choose(files: Files, index: Any, depth: int = 1) -> Descriptor:
    with well_formed(files, INDEX):
        # Attestations are listed as images without a platform.
        entries = [
            manifest for manifest in index["manifests"] if manifest.get("platform", {}).get("os") != "unknown"
        ]
        fitting = [item for item in entries if _fits(item.get("platform", {}))]
        alone = entries if len(entries) == 1 else fitting
        entry = alone[0] if len(alone) == 1 and depth <= _DEEPEST else None
        platforms = [_shown(item.get("platform", {})) for item in entries]
    if entry is None:
        raise UserError(
            f'cannot tell which image of "{files.path}" is meant: it has {len(entries)} of them, for '
            f"{', '.join(sorted(platforms)) or 'nothing'}: keep one, or one for {this_platform()}"
        )
    with well_formed(files, INDEX):
        descriptor = _descriptor(entry)
    if descriptor.media_type == MediaType.INDEX:
        return _choose(files, _document(files, descriptor), depth + 1)
    return descriptor


def _fits(platform: Json) -> bool:
    here = this_platform()
    return (platform.get("os"), platform.get("architecture")) == (here.os, here.architecture)


def _shown(platform: Json) -> str:
    return f"{platform.get('os', 'any system')}/{platform.get('architecture', 'any machine')}"


def _descriptor(plain: Json) -> Descriptor:
    digest, media_type = plain["digest"], plain["mediaType"]
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is not a SHA-256 digest")
    annotations = {str(key): str(value) for key, value in (plain.get("annotations") or {}).items()}
    return Descriptor(str(_MEDIA_TYPES.get(media_type, media_type)), digest, int(plain["size"]), annotations)


def _document(files: Files, descriptor: Descriptor) -> Any:
    content = read(files, name_blob(descriptor))
    _check(files, name_blob(descriptor), descriptor, io.BytesIO(content))
    return parse_document(files, name_blob(descriptor), content)


def _check(files: Files, name: str, expected: Descriptor, file: IO[bytes]) -> None:
    digest, size = _measure(file)
    if size != expected.size:
        raise damaged(files.path, f"{name} has {size} bytes instead of {expected.size}")
    if digest != expected.digest:
        raise damaged(files.path, f"{name} has the digest {digest} instead of {expected.digest}")


def _measure(file: IO[bytes]) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    while chunk := file.read(CHUNK):
        hashed.update(chunk)
        size += len(chunk)
    return f"sha256:{hashed.hexdigest()}", size
