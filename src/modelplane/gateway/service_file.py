"""Settings of services beside their routes, as the gateway module reads them: ``services.json``.

The contract is in ``gateway-module/README.md``.
"""

import msgspec


class HoldEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits of the requests of a service that wait for its first endpoint."""

    timeout_seconds: int
    max_requests: int


class ServiceEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Settings of one service."""

    hold: HoldEntry | None = None
    """None refuses requests while the service has no endpoint."""


class ServiceFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``services.json``."""

    services: dict[str, ServiceEntry] = {}
    """By NAMESPACE/SERVICE; one without settings is not in it."""

    def text(self) -> bytes:
        """Return the content as the module reads it."""
        return msgspec.json.encode(self, order="sorted")
