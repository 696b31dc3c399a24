"""Container images (OCI image specification 1.1): their files, blobs and manifests, and an image as one file.

An image as one file is a tar of an OCI image layout (``oci-layout``, ``index.json``, ``blobs/sha256/``), as
skopeo, oras and containerd read it. A ``manifest.json`` over the same blobs makes it a Docker archive too,
for ``docker load`` and ``crossplane xpkg push``. No layer of a Docker archive has annotations; Crossplane's
CLI makes them from labels of the config (``AnnotateLayers`` in its ``internal/xpkg/layers.go``), so the
image has both.

An image is a manifest, which lists a config and layers by digest. Only the fields that a package needs are
modeled.

One rule: the same files give the same bytes. Every file belongs to root, has a time of 1970, and is readable
by all, because Crossplane runs functions as a user of its own.
"""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import IO, Any

from modelplane.user_error import UserError

ANYONE_MAY_WRITE = 0o1777


@dataclass(frozen=True, slots=True)
class File:
    """A file of an image."""

    path: str
    """Its path in the image, without a leading slash."""
    source: Path | bytes
    """The local file, or its content."""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that exists even if it is empty."""

    path: str
    mode: int = 0o755


Entry = File | Folder


def arrange(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return entries by name, each after the folders that contain it, which are added if missing."""
    known = {entry.path: entry for entry in entries}
    for path in list(known):
        for parent in PurePosixPath(path).parents[:-1]:
            known.setdefault(str(parent), Folder(str(parent)))
    return (known[path] for path in sorted(known))


def write_tar(out: IO[bytes], entries: Iterable[Entry]) -> None:
    """Write entries as a tar stream, in their order."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            if isinstance(entry, Folder):
                archive.addfile(_header(entry.path, entry.mode, tarfile.DIRTYPE))
                continue
            header = _header(entry.path, 0o755 if entry.executable else 0o644, tarfile.REGTYPE)
            with _opened(entry.source) as content:
                header.size = content.seek(0, io.SEEK_END)
                content.seek(0)
                archive.addfile(header, content)


def _opened(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _header(path: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.mode = mode
    header.type = kind
    return header


Json = dict[str, Any]


class MediaType(StrEnum):
    """Media type of a blob."""

    INDEX = "application/vnd.oci.image.index.v1+json"
    MANIFEST = "application/vnd.oci.image.manifest.v1+json"
    CONFIG = "application/vnd.oci.image.config.v1+json"
    TAR = "application/vnd.oci.image.layer.v1.tar"
    TAR_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
    TAR_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"


LAYERS = (MediaType.TAR, MediaType.TAR_GZIP, MediaType.TAR_ZSTD)

REF_NAME = "org.opencontainers.image.ref.name"
TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"

XPKG = "io.crossplane.xpkg"
"""The annotation of a layer that Crossplane reads."""

XPKG_BASE = "base"
"""Its value for the layer with ``package.yaml``."""


def xpkg_label(digest: str) -> str:
    """Return the label of the config from which ``crossplane xpkg push`` restores a layer's annotation."""
    return f"{XPKG}:{digest}"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A reference to a blob."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = field(default_factory=dict)

    def json(self) -> Json:
        """Return it in its wire form."""
        plain: Json = {"mediaType": str(self.media_type), "digest": self.digest, "size": self.size}
        return plain | ({"annotations": self.annotations} if self.annotations else {})


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its blob, and the digest of its uncompressed content."""

    blob: Descriptor
    diff_id: str


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform of an image, in the specification's terms."""

    architecture: str
    os: str = "linux"
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def json(self) -> Json:
        """Return it in its wire form."""
        plain = {"architecture": self.architecture, "os": self.os}
        return plain | ({"variant": self.variant} if self.variant else {})


_ARCHITECTURES = {
    "x86_64": Platform("amd64"),
    "aarch64": Platform("arm64", variant="v8"),
    "ppc64le": Platform("ppc64le"),
    "riscv64": Platform("riscv64"),
    "s390x": Platform("s390x"),
}


def this_platform() -> Platform:
    """Return the platform of this machine, for a Linux image."""
    machine = platform.machine()
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        raise UserError(
            f'cannot make an image for a machine of type "{machine}": it is none of '
            f"{', '.join(_ARCHITECTURES)}: give --runtime-image, an image made elsewhere"
        ) from None


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its layers, lowest first, and its start configuration."""

    platform: Platform
    config: Json
    """The ``config`` of the specification: ``Entrypoint``, ``Env``, ``User``, ``Labels`` and so on."""
    layers: tuple[Layer, ...]


CHUNK = 1 << 20
_LEVEL = 6


class Hashing:
    """A writable file that computes the digest and the size of its content."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write some bytes."""
        self._hash.update(data)
        self.size += len(data)
        return int(self._below.write(data))

    def flush(self) -> None:
        """Do nothing: the underlying file is flushed when it is closed."""

    @property
    def digest(self) -> str:
        """The digest of everything written so far."""
        return f"sha256:{self._hash.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Blobs:
    """Blobs in a local folder."""

    folder: Path

    def path(self, digest: str) -> Path:
        """Return the path of a blob."""
        return self.folder / digest.removeprefix("sha256:")

    def add_json(self, content: Any, media_type: MediaType) -> Descriptor:
        """Add a document."""
        return self._add(media_type, lambda out: out.write(canonical_json(content)))

    def add_stream(self, source: IO[bytes], media_type: str) -> Descriptor:
        """Add the content of a stream, unchanged."""
        return self._add(media_type, lambda out: _copy(source, out))

    def add_tar(self, tar: IO[bytes]) -> Layer:
        """Add a layer from a tar stream, and compress it."""
        return self._add_layer(lambda out: _copy(tar, out))

    def add_entries(self, entries: Iterable[Entry]) -> Layer:
        """Add a layer with these files."""
        return self._add_layer(lambda out: write_tar(out, arrange(entries)))

    def _add_layer(self, write: Callable[[Any], object]) -> Layer:
        diff_id = ""

        def compress(out: Hashing) -> None:
            nonlocal diff_id
            with gzip.GzipFile("", "wb", _LEVEL, out, mtime=0) as compressed:
                plain = Hashing(compressed)
                write(plain)
            diff_id = plain.digest

        return Layer(self._add(MediaType.TAR_GZIP, compress), diff_id)

    def _add(self, media_type: str, write: Callable[[Hashing], object]) -> Descriptor:
        self.folder.mkdir(parents=True, exist_ok=True)
        incoming = self.folder / ".incoming"
        with incoming.open("wb") as file:
            out = Hashing(file)
            write(out)
        incoming.replace(self.path(out.digest))
        return Descriptor(media_type, out.digest, out.size)


def canonical_json(content: Any) -> bytes:
    """Return a document as the same bytes each time."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _copy(source: IO[bytes], out: Hashing) -> None:
    while chunk := source.read(CHUNK):
        out.write(chunk)


BLOBS = "blobs/sha256"
OCI_LAYOUT = "oci-layout"
INDEX = "index.json"
DOCKER_MANIFEST = "manifest.json"

LAYOUT_VERSION = {"imageLayoutVersion": "1.0.0"}


def write(path: Path, image: Image, blobs: Blobs, address: str, tag: str) -> str:
    """Write an image and its blobs to a file; return the digest of its manifest."""
    rootfs = {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]}
    start = image.platform.json() | {"config": image.config, "rootfs": rootfs}
    config = blobs.add_json(start, MediaType.CONFIG)
    layers = [layer.blob for layer in image.layers]
    name = f"{address}:{tag}"
    listed = {
        "schemaVersion": 2,
        "mediaType": str(MediaType.MANIFEST),
        "config": config.json(),
        "layers": [layer.json() for layer in layers],
    }
    manifest = blobs.add_json(listed, MediaType.MANIFEST)
    index = {
        "schemaVersion": 2,
        "mediaType": str(MediaType.INDEX),
        "manifests": [
            # Podman loads the image under this name.
            manifest.json() | {"platform": image.platform.json(), "annotations": {REF_NAME: name}},
        ],
    }
    docker = [
        {
            "Config": name_blob(config),
            "RepoTags": [name],
            "Layers": [name_blob(layer) for layer in layers],
        }
    ]
    contents = [(OCI_LAYOUT, LAYOUT_VERSION), (INDEX, index), (DOCKER_MANIFEST, docker)]
    first = [File(name, canonical_json(content)) for name, content in contents]
    rest = [
        File(name_blob(descriptor), blobs.path(descriptor.digest))
        for descriptor in (config, manifest, *layers)
    ]
    # The indexes come first, so that even a truncated file can be identified.
    _replace(path, [*first, *arrange(rest)])
    return manifest.digest


def name_blob(blob: Descriptor) -> str:
    """Return the path of a blob in a layout."""
    return f"{BLOBS}/{blob.digest.removeprefix('sha256:')}"


def _replace(path: Path, entries: list[Entry]) -> None:
    """Write to a temporary file first, so that the file is always complete or unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    incoming = path.with_name(f".{path.name}.incoming")
    try:
        with incoming.open("wb") as out:
            write_tar(out, entries)
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)
