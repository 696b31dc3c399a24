"""The routes of a gateway, before any proxy's own words for them.

A table is a value: the same services and endpoints give the same table, in
whatever order they were read. A route takes the requests below one path prefix
and shares them out over its backends, each of which may want another prefix,
another Host and TLS.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backend:
    """One place that requests go to."""

    name: str
    """Unique in a listener, apart from the weight: routes that share a backend share its connections."""
    hosts: tuple[tuple[str, int], ...]
    """Address and port of each equal instance. A host name stands alone and is resolved while serving."""
    weight: int = 1
    """Share of the route's requests, relative to its other backends; at least 1."""
    prefix: str = ""
    """What replaces the route's prefix, with a slash at the end. Empty: the path is passed on as it came."""
    overlap: str = ""
    """The last segment of ``prefix``, where a request that begins with it already must not get it twice."""
    tls: bool = False
    """Whether to speak TLS, and to refuse a certificate that is not for the host."""
    host: str = ""
    """The Host header to send. Empty: the client's."""


@dataclass(frozen=True, slots=True)
class Route:
    """Everything below one path prefix."""

    name: str
    prefix: str
    """Begins and ends with a slash; matches the path without that last slash too."""
    backends: tuple[Backend, ...] = ()
    unavailable: str = ""
    """What a client is told where ``backends`` is empty: what is missing, and where to look."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that accepts requests."""

    name: str
    address: str
    port: int
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Everything that one proxy serves."""

    listeners: tuple[Listener, ...] = ()
