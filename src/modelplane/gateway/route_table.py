"""Table of a gateway's routes, independent of the proxy.

A table is a value: the same services and endpoints give the same table, in any
order. A route takes the requests below one path prefix and divides them among
its backends, each with its own prefix, Host header and TLS.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from modelplane.api.fields.requests.key_limits import RateLimitService
from modelplane.api.inference_gateway import TLSVersion
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.module_files.models import ModelFile
from modelplane.gateway.module_files.route_files import CredentialFile, ServiceEntry
from modelplane.gateway.mutual_tls import Identity


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key."""

    name: str
    """Unique in a listener; the name of its Secret."""
    chain: str
    """The certificate and those of its issuers, in PEM."""
    key: str = field(repr=False)
    """The private key, in PEM."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of a listener, which then serves nothing else."""

    certificates: tuple[Certificate, ...]
    """The first is for clients that ask for a host of none. Without any, no connection is served."""
    minimum_version: TLSVersion = TLSVersion.V1_2


@dataclass(frozen=True, slots=True)
class CredentialReference:
    """A credential of a backend: a member of a Secret, for one host.

    The host is part of its name, so that no change of an endpoint sends a credential to another host.
    """

    namespace: str
    secret: str
    key: str
    header: str
    host: str
    """Host of the backend, with its port unless that is the scheme's."""

    @property
    def name(self) -> str:
        """Name in the gateway's file of credentials."""
        return "/".join((self.namespace, self.secret, self.key, self.header, self.host))


@dataclass(frozen=True, slots=True)
class EndpointPicker:
    """Server that chooses the instance of a backend for each request (Gateway API Inference Extension)."""

    name: str
    """Unique in a listener."""
    hosts: tuple[tuple[str, int], ...]
    """Address and port of each of its instances."""
    fails_open: bool
    """True to send requests to any instance of the backend while no picker answers; else they are refused."""


@dataclass(frozen=True, slots=True)
class Token:
    """Header by which the gateway of a cluster knows the fleet's gateway."""

    header: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Backend:
    """Destination of requests."""

    name: str
    """Unique in a listener, save weight and priority: routes that share a backend share its connections."""
    hosts: tuple[tuple[str, int], ...]
    """Address and port of each instance. A host name is the only one, and is resolved while serving."""
    weight: int = 1
    """Share of the tier's requests, relative to its other backends; at least 1."""
    prefix: str = ""
    """Replacement of the route's prefix, with a slash at the end; empty to pass the path on unchanged."""
    overlap: str = ""
    """Last segment of ``prefix``, if it is not repeated in a request that already begins with it."""
    tls: bool = False
    """True to use TLS, and to reject a certificate for another host."""
    server_name: str = ""
    """Name of a cluster's gateway: TLS is mutual, with the table's identity and authorities. Else empty."""
    host: str = ""
    """Host header to send; empty for the client's."""
    model: str = ""
    """Name of the model at the backend, written into each request; empty for the client's."""
    served: str = ""
    """As ``model``, but only for requests whose service was chosen by their model, where the module is."""
    credential: CredentialReference | None = None
    """Credential to send; None passes the client's headers on."""
    region: str = ""
    """Region in which it answers; empty for none."""
    priority: int = 0
    """Tier of the route, 0 the first: the next one is asked if this one fails."""
    tokens: tuple[Token, ...] | None = None
    """Proof for the gateway of its cluster; None for a backend that is no replica."""
    picker: EndpointPicker | None = None
    """Chooses among ``hosts``; the backend is then the only one of its route."""

    @property
    def needs_module(self) -> bool:
        """Return True if only the gateway module can send requests to it."""
        return bool(self.model) or self.credential is not None


shared: Callable[[Backend], tuple[Any, ...]] = attrgetter(
    *(part.name for part in fields(Backend) if part.name not in ("weight", "priority"))
)
"""Returns what routes that share a backend agree on: everything but what is the matter of one route."""


@dataclass(frozen=True, slots=True)
class Front:
    """Work of the gateway module on a request before it is routed."""

    keys: KeyFile | None = None
    """Keys of which a request needs one; None admits every request."""
    models: ModelFile | None = None
    """Services that ``/v1/...`` leads to by the model of the body; None gives such paths no meaning."""
    trusted_hops: int = 0
    """Proxies in front of the gateway whose entries in X-Forwarded-For are true."""
    gateways: int = 1
    """Number of Envoys with this table: each has an equal part of the limits of keys."""
    credentials: CredentialFile = field(default_factory=CredentialFile)
    """Credentials of the backends, by name."""
    rate_limits: RateLimitService | None = None
    """Server that counts the limits of keys that ask for it; None leaves them to each gateway."""
    counts: bool = False
    """True if a budget needs records for the ledger, also of requests without a key."""


@dataclass(frozen=True, slots=True)
class Route:
    """Requests below one path prefix, and their backends."""

    name: str
    prefix: str
    """Begins and ends with a slash; also matches the path without the last slash."""
    backends: tuple[Backend, ...] = ()
    unavailable: str = ""
    """Message to clients while ``backends`` is empty: the cause, and the command that shows more."""
    settings: ServiceEntry = field(default_factory=ServiceEntry)
    """Treatment of its requests by the gateway module before they are routed."""
    token: Token | None = None
    """Token that a request needs; None admits every request. Other requests have no route."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Address that accepts requests."""

    name: str
    address: str
    port: int
    routes: tuple[Route, ...] = ()
    destinations: Destinations | None = None
    """Allowed addresses of its backends, checked once names are resolved; None checks nothing."""
    front: Front | None = None
    """None for a listener whose requests come from a gateway."""
    tls: Tls | None = None
    """None serves plain HTTP."""
    usage_log: str = ""
    """File of usage records, from Envoy's working directory, or "/dev/stdout"; empty for none."""
    ledger_log: str = ""
    """File of records for the ledger, if those of ``usage_log`` are not in a file; empty for none."""


@dataclass(frozen=True, slots=True)
class Table:
    """Listeners of one proxy."""

    listeners: tuple[Listener, ...] = ()
    identity: Identity | None = None
    """Identity of the gateway for clusters; without it, backends with a ``server_name`` get no requests."""
