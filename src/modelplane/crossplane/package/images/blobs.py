"""A folder of blobs, each named by its digest, as in an OCI image layout."""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from modelplane.crossplane.package.images.image_entries import Entry, arranged, write_tar
from modelplane.crossplane.package.images.oci import Descriptor, Layer, MediaType

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
        return self._add_layer(lambda out: write_tar(out, arranged(entries)))

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
