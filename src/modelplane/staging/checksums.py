"""Checksums of content that arrives in pieces."""

import base64
import hashlib
import zlib


class Checksum:
    """A checksum of content that arrives in pieces; with ``part_size`` that of S3's multipart uploads."""

    def __init__(self, algorithm: str, wanted: str, part_size: int = 0) -> None:
        self.algorithm, self.wanted, self._part_size = algorithm, wanted, part_size
        self._hash = None if algorithm == "crc32" else hashlib.new(algorithm, usedforsecurity=False)
        self._parts, self._in_part, self._crc = b"", 0, 0

    def update(self, content: bytes) -> None:
        """Add a piece."""
        if self._hash is None:
            self._crc = zlib.crc32(content, self._crc)
            return
        while self._part_size and self._in_part + len(content) > self._part_size:
            rest = self._part_size - self._in_part
            self._hash.update(content[:rest])
            self._next_part()
            content = content[rest:]
        self._hash.update(content)
        self._in_part += len(content)

    def _next_part(self) -> None:
        assert self._hash is not None  # noqa: S101  for the type checker
        self._parts += self._hash.digest()
        self._hash, self._in_part = hashlib.new(self.algorithm, usedforsecurity=False), 0

    def result(self) -> str:
        """Return the checksum, in the form of ``wanted``."""
        if self._hash is None:
            return base64.b64encode(self._crc.to_bytes(4, "big")).decode()
        if not self._part_size:
            return self._hash.hexdigest()
        self._next_part()
        whole = hashlib.new(self.algorithm, self._parts, usedforsecurity=False).hexdigest()
        return f"{whole}-{len(self._parts) // self._hash.digest_size}"
