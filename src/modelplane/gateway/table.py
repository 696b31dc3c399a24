"""Table of a gateway's routes, independent of the proxy.

A table is a value: the same services and endpoints give the same table, in any
order. A route takes the requests below one path prefix and divides them among
its backends, each with its own prefix, Host header and TLS.
"""

from dataclasses import dataclass

from modelplane.gateway.destinations import Destinations


@dataclass(frozen=True, slots=True)
class Backend:
    """Destination of requests."""

    name: str
    """Unique in a listener, except for the weight: routes that share a backend share its connections."""
    hosts: tuple[tuple[str, int], ...]
    """Address and port of each instance. A host name is the only one, and is resolved while serving."""
    weight: int = 1
    """Share of the route's requests, relative to its other backends; at least 1."""
    prefix: str = ""
    """Replacement of the route's prefix, with a slash at the end; empty to pass the path on unchanged."""
    overlap: str = ""
    """Last segment of ``prefix``, if it is not repeated in a request that already begins with it."""
    tls: bool = False
    """True to use TLS, and to reject a certificate for another host."""
    host: str = ""
    """Host header to send; empty for the client's."""


@dataclass(frozen=True, slots=True)
class Route:
    """Requests below one path prefix, and their backends."""

    name: str
    prefix: str
    """Begins and ends with a slash; also matches the path without the last slash."""
    backends: tuple[Backend, ...] = ()
    unavailable: str = ""
    """Message to clients while ``backends`` is empty: the cause, and the command that shows more."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Address that accepts requests."""

    name: str
    address: str
    port: int
    routes: tuple[Route, ...] = ()
    destinations: Destinations | None = None
    """Allowed addresses of its backends, checked once names are resolved; None checks nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """Listeners of one proxy."""

    listeners: tuple[Listener, ...] = ()
