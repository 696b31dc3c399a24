"""Credentials of backends as the gateway module reads them: the content of ``credentials.json``.

The contract is in ``gateway-module/README.md``. No text about a value contains it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True, repr=False)
class SecretHeader:
    """A header with a secret."""

    header: str
    """Name of the header, in lower case."""
    value: str

    def __repr__(self) -> str:
        return f"SecretHeader({self.header!r})"


@dataclass(frozen=True, slots=True)
class CredentialFile:
    """Content of ``credentials.json``."""

    credentials: Mapping[str, SecretHeader] = field(default_factory=dict)
    """By name."""

    @classmethod
    def parse(cls, text: str) -> "CredentialFile":
        """Return the content that was written; empty if it is damaged."""
        try:
            read = msgspec.json.decode(text, type=dict[str, dict[str, SecretHeader]])
        except msgspec.DecodeError:
            return cls()
        return cls(read.get("credentials", {}))

    def encode(self) -> bytes:
        """Return the content as the module reads it."""
        return msgspec.json.encode({"credentials": self.credentials}, order="sorted")
