"""An image in files, with its digests verified."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.blobs import CHUNK
from modelplane.crossplane.package.images.image_files import Files, damaged, required
from modelplane.crossplane.package.images.oci import Descriptor, Image, MediaType


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One image, and the files of its layers."""

    files: Files
    image: Image
    names: tuple[str, ...]
    """The file of each layer."""
    manifest: str = ""
    """The digest of its manifest; a Docker archive has none."""
    tag: str = ""

    @contextmanager
    def layer(self, number: int) -> Iterator[IO[bytes]]:
        """Open one layer as stored."""
        with required(self.files, self.names[number]) as file:
            yield file

    @contextmanager
    def tar(self, number: int) -> Iterator[IO[bytes]]:
        """Open one layer as a tar stream; damage raises an error."""
        media_type = self.image.layers[number].blob.media_type
        if media_type == MediaType.TAR_ZSTD:
            raise PackageError(
                f'cannot look into {self._name(number)} of "{self.files.path}": it is compressed with zstd: '
                "write the image with gzip"
            )
        with self.layer(number) as file:
            if media_type == MediaType.TAR:
                yield file
                return
            try:
                yield cast("IO[bytes]", gzip.GzipFile(fileobj=file))
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise damaged(self.files.path, f"{self._name(number)} cannot be unpacked: {error}") from error

    def verify(self) -> None:
        """Check the digest and the size of each layer, and the digest of its content."""
        for number, layer in enumerate(self.image.layers):
            with self.layer(number) as file:
                check(self.files, self._name(number), layer.blob, file)
            if layer.blob.media_type == MediaType.TAR_ZSTD:
                continue
            with self.tar(number) as content:
                found, _ = measured(content)
            if found != layer.diff_id:
                what = f"{self._name(number)} unpacks to {found} where its config says {layer.diff_id}"
                raise damaged(self.files.path, what)

    def _name(self, number: int) -> str:
        return f"layer {number + 1} of {len(self.image.layers)}"


def check(files: Files, name: str, expected: Descriptor, file: IO[bytes]) -> None:
    """Compare a file with its descriptor."""
    digest, size = measured(file)
    if size != expected.size:
        raise damaged(files.path, f"{name} has {size} bytes instead of {expected.size}")
    if digest != expected.digest:
        raise damaged(files.path, f"{name} has the digest {digest} instead of {expected.digest}")


def measured(file: IO[bytes]) -> tuple[str, int]:
    """Return the digest and the size of a file."""
    hashed, size = hashlib.sha256(), 0
    while chunk := file.read(CHUNK):
        hashed.update(chunk)
        size += len(chunk)
    return f"sha256:{hashed.hexdigest()}", size
