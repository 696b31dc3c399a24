"""Files that the gateway module reads beside routes: settings of services, and credentials of backends.

The contract of ``services.json`` and ``credentials.json`` is in ``gateway-module/README.md``. No text about
the value of a credential contains it.
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


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of the file; absent members have their default."""


class HoldEntry(_Entry, frozen=True, kw_only=True):
    """Limits of the requests of a service that wait for its first endpoint."""

    timeout_seconds: int
    max_requests: int


class BackendEntry(_Entry, frozen=True, kw_only=True):
    """A backend in the order of its service."""

    name: str
    weight: int = 1
    priority: int = 0
    max_outstanding_requests: int | None = None
    max_queued_requests: int | None = None
    region: str | None = None


class BalancingEntry(_Entry, frozen=True, kw_only=True):
    """Choice among the backends of one service."""

    policy: str = "Weighted"
    session_header: str | None = None
    backends: tuple[BackendEntry, ...] = ()


class ServiceEntry(_Entry, frozen=True, kw_only=True):
    """Settings of one service."""

    balancing: BalancingEntry | None = None
    bound: BalancingEntry | None = None
    """Choice for requests that are bound to regions, where ``balancing`` is absent."""
    hold: HoldEntry | None = None
    """None refuses requests while the service has no endpoint."""


class ServiceFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``services.json``."""

    services: dict[str, ServiceEntry] = {}
    """By NAMESPACE/SERVICE; one without settings is not in it."""

    def encode(self) -> bytes:
        """Return the content as the module reads it."""
        return msgspec.json.encode(self, order="sorted")
