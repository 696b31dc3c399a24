"""Routes of the gateway, from services and endpoints.

A service routes only to endpoints of its own namespace. An endpoint gets requests while its URL is valid and
it is neither drained nor deleted. Its health is the matter of its writer, and of the proxy's retries.

A route costs the controllers and the gateway work for each of its endpoints. The sum over the services of a
namespace is therefore bounded, so that one team's services take nothing from another's.
"""

import ipaddress
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby
from urllib.parse import SplitResult, urlsplit

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelEndpointReason as Reason
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import EndpointEntry, ModelService
from modelplane.api.rejected import Rejected
from modelplane.gateway import balancing, credentials
from modelplane.gateway.balancing import divide_for_canary, spread
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.route_table import Backend, Route

MOST_IN_NAMESPACE = 10_000
"""Maximum of endpoints to which the services of a namespace route, summed over its services."""


@dataclass(frozen=True, slots=True)
class EndpointShare:
    """The endpoints that a service may route to."""

    most: int
    """Number of endpoints: those that the route has, and those that nobody in the namespace has."""
    is_beyond: bool = False
    """True if the service keeps endpoints that its namespace's maximum leaves to older services."""


MOST_ENDPOINTS = 1024
"""Maximum of endpoints that the route of one service leads to."""

_FORM = "use http://HOST:PORT or https://HOST"
_PORTS = {"http": 80, "https": 443}
_HOST_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_MODEL = re.compile("[!-~]{1,256}")
_VERSION = re.compile(r"v\d+\w*")
_PLAIN_PATH = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+/?")
"""A path that every server reads in one way."""


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of an endpoint's URL."""

    host: str
    """An IP address, or a host name in lower case."""
    port: int
    tls: bool
    authority: str
    """The Host header of a request to the URL (RFC 9110, section 7.2)."""
    is_of_replica: bool = False
    """True if a ModelReplica wrote the URL, with the address of its cluster's gateway."""


@dataclass(frozen=True, slots=True)
class Selected:
    """An endpoint that a service routes to, and its share of the requests."""

    endpoint: ModelEndpoint
    target: Target
    weight: int
    priority: int = 0
    """Tier of the service."""
    limits: balancing.Limits = balancing.NO_LIMITS
    """Load from which others are asked first."""


_Group = list[tuple[ModelEndpoint, Target]]


@lru_cache(maxsize=1 << 14)
def parse_url(url: str) -> Target | Rejected:
    """Return the destination of a URL; its path, query and fragment are ignored."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        return Rejected(Reason.INVALID_URL, detail=str(error), remedy=_FORM)
    host = (parts.hostname or "").rstrip(".")
    version = find_ip_version(host)
    if rejected := _check_parts(parts, host, version):
        return rejected
    default = _PORTS[parts.scheme]
    name = f"[{host}]" if version == 6 else host
    authority = name if port in (None, default) else f"{name}:{port}"
    return Target(host, port or default, parts.scheme == "https", authority)


def _check_parts(parts: SplitResult, host: str, version: int) -> Rejected | None:
    """Return why the parts of a URL are no destination; None if they are one."""
    detail, remedy = "", _FORM
    if parts.scheme not in _PORTS:
        detail = f'the scheme is "{parts.scheme}"'
    elif not host:
        detail = "the url has no host"
    elif "@" in parts.netloc:
        detail, remedy = (
            "the url contains credentials, which everyone who can read the endpoint would see",
            "",
        )
    elif parts.port == 0:
        detail = "no server listens on port 0"
    elif not version and re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]):
        detail = f'"{host}" may be read as an IPv4 address'
        remedy = "write one as four decimal numbers"
    elif not (version or _HOST_NAME.fullmatch(host)):
        detail = f'"{host}" is neither a host name nor an IP address'
    return Rejected(Reason.INVALID_URL, detail=detail, remedy=remedy) if detail else None


def find_target(endpoint: ModelEndpoint, destinations: Destinations) -> Target | Rejected:
    """Return the destination of an endpoint, or why the gateway must not use it."""
    target = parse_url(endpoint.spec.url)
    if isinstance(target, Rejected):
        return target
    # The endpoint of a ModelReplica leads to the replica's own path. Whoever writes such a reference into
    # another endpoint reaches no replica but that of its own name, and nothing at all where the uids of the
    # replicas are known.
    metadata = endpoint.metadata
    is_owned = any(
        reference.controller
        and (reference.api_version, reference.kind) == (API_VERSION, kind_name(ModelReplica))
        and reference.name == metadata.name
        and (destinations.replicas is None or reference.uid in destinations.replicas)
        for reference in metadata.owner_references
    )
    is_of_replica = (
        is_owned
        and endpoint.spec.rewrite_path == f"/{metadata.namespace}/{metadata.name}/"
        and destinations.may_be_gateway_of_cluster(target.host, target.port)
    )
    rejected = (
        destinations.check(target.host, target.port, of_replica=is_of_replica)
        or credentials.check_clear_text(endpoint, target.host, tls=target.tls, destinations=destinations)
        or _check_mutual_tls(endpoint, tls=target.tls)
    )
    return rejected or (replace(target, is_of_replica=True) if is_of_replica else target)


def _check_mutual_tls(endpoint: ModelEndpoint, *, tls: bool) -> Rejected | None:
    """Return why mutual TLS must not lead to an endpoint: only the gateway may, so keys guard the path."""
    home = f"/{endpoint.metadata.namespace}/"
    path = endpoint.spec.rewrite_path or ""
    if endpoint.spec.mutual_tls is None:
        return None
    remedy = "let the ModelReplica write it"
    if not tls:
        detail, remedy = "spec.mutualTLS needs https", "let the ModelReplica write the endpoint"
    elif not path.startswith(home):
        detail = f"with spec.mutualTLS, rewritePath must begin with {home}"
    elif not _PLAIN_PATH.fullmatch(path):
        detail = (
            "with spec.mutualTLS, rewritePath must have plain segments (no .., // or escapes), which lead "
            "nowhere else"
        )
    else:
        return None
    return Rejected(Reason.INVALID_URL, detail=detail, remedy=remedy)


def select(
    service: ModelService,
    endpoints: Iterable[ModelEndpoint],
    destinations: Destinations,
    closed: Container[int] = (),
) -> tuple[Selected, ...]:
    """Return the endpoints that a service routes to: by priority, in the order of its entries, by name.

    An endpoint belongs to the first entry that matches it. If no entry of a priority has a weight, endpoints
    share its requests evenly; if one has, entries share them by weight, 1 if absent. The endpoints of entries
    that are ``closed`` get none.
    """
    groups: list[_Group] = [[] for _ in service.spec.endpoints]
    for endpoint in _candidates(service, endpoints):
        entry = find_entry(service, endpoint)
        if entry is None or entry in closed:
            continue
        target = find_target(endpoint, destinations)
        if isinstance(target, Target):
            groups[entry].append((endpoint, target))
    entries = zip(service.spec.endpoints, groups, strict=True)
    ordered = sorted(entries, key=lambda other: other[0].priority)
    tiers = groupby(ordered, key=lambda choice: choice[0].priority)
    return tuple(selected for _, tier in tiers for selected in _weighed(list(tier)))


def select_endpoints(service: ModelService, endpoints: Iterable[ModelEndpoint]) -> tuple[ModelEndpoint, ...]:
    """Return the endpoints that a service selects, whatever their url, by name."""
    candidates = _candidates(service, endpoints)
    return tuple(endpoint for endpoint in candidates if find_entry(service, endpoint) is not None)


def list_without_target(
    service: ModelService, endpoints: Iterable[ModelEndpoint], destinations: Destinations
) -> tuple[str, ...]:
    """Return the names of the endpoints that a service selects and whose url cannot be used."""
    return tuple(
        endpoint.metadata.name
        for endpoint in select_endpoints(service, endpoints)
        if isinstance(find_target(endpoint, destinations), Rejected)
    )


def build_service_route(
    service: ModelService, selected: Sequence[Selected], unusable: Sequence[str]
) -> Route:
    """Return the route of a service to its endpoints, up to the maximum; without any, it says why.

    ``unusable`` are the names of the selected endpoints whose url cannot be used.
    """
    name = f"{service.metadata.namespace}/{service.metadata.name}"
    backends = tuple(_backend(endpoint) for endpoint in selected[:MOST_ENDPOINTS])
    limits = (endpoint.limits for endpoint in selected)
    return Route(
        name=name,
        prefix=f"/{name}/",
        backends=backends,
        settings=balancing.build_settings(service, tuple(zip(backends, limits, strict=False))),
        unavailable="" if selected else _missing(service, unusable),
    )


def _backend(selected: Selected) -> Backend:
    endpoint, target = selected.endpoint, selected.target
    prefix, overlap = find_rewriting(endpoint)
    served = endpoint.metadata.annotations.get(labels.SERVED_MODEL, "")
    return Backend(
        name=f"{endpoint.metadata.namespace}/{endpoint.metadata.name}",
        hosts=((target.host, target.port),),
        weight=selected.weight,
        prefix=prefix,
        overlap=overlap,
        tls=target.tls,
        server_name=endpoint.spec.mutual_tls.server_name if endpoint.spec.mutual_tls else "",
        host=target.authority,
        model=endpoint.spec.model or "",
        served=served if _MODEL.fullmatch(served) else "",
        credential=credentials.find_reference(endpoint, target.authority),
        region=endpoint.spec.region or "",
        priority=selected.priority,
        tokens=() if target.is_of_replica else None,
    )


def find_rewriting(endpoint: ModelEndpoint) -> tuple[str, str]:
    """Return the replacement of a service's prefix, with a slash at the end or empty, and its overlap.

    The overlap is its last segment, if that is an API version: a provider's base path usually ends in one,
    and clients begin their path with it.
    """
    path = endpoint.spec.rewrite_path
    if not path:
        return "", ""
    prefix = path if path.endswith("/") else f"{path}/"
    last = prefix.rstrip("/").rpartition("/")[2]
    return prefix, last if _VERSION.fullmatch(last) else ""


def _missing(service: ModelService, unusable: Sequence[str]) -> str:
    namespace, name = service.metadata.namespace, service.metadata.name
    if unusable:
        named = listing(f'"{name}"' for name in unusable)
        why = f"the url of ModelEndpoint {named} is not usable"
        what = f"run kubectl get modelendpoints -n {namespace}"
    else:
        why = f'no ready ModelEndpoint in namespace "{namespace}" has the selected labels'
        what = f"run kubectl get modeldeployments,modelendpoints -n {namespace}"
    return f'cannot serve ModelService "{namespace}/{name}": {why}: {what}'


def _candidates(service: ModelService, endpoints: Iterable[ModelEndpoint]) -> list[ModelEndpoint]:
    mine = (
        endpoint
        for endpoint in endpoints
        if endpoint.metadata.namespace == service.metadata.namespace
        and endpoint.metadata.deletion_timestamp is None
        and labels.DRAINING not in endpoint.metadata.annotations
        and endpoint.metadata.annotations.get(labels.CANARY_WEIGHT) != labels.WITHDRAWN
    )
    return sorted(mine, key=lambda endpoint: endpoint.metadata.name)


def find_entry(service: ModelService, endpoint: ModelEndpoint) -> int | None:
    """Return the index of the first entry that an endpoint matches; None if none does."""
    own = endpoint.metadata.labels.items()
    entries = enumerate(service.spec.endpoints)
    return next((index for index, entry in entries if entry.selector.match_labels.items() <= own), None)


def _weighed(tier: Sequence[tuple[EndpointEntry, _Group]]) -> Iterator[Selected]:
    """Yield the endpoints of the entries of one priority, with their weights."""
    counts = [len(group) for _, group in tier]
    shares: Iterable[tuple[int, ...]] = [(1,) * count for count in counts]
    if any(entry.weight is not None for entry, _ in tier):
        shares = spread([1 if entry.weight is None else entry.weight for entry, _ in tier], counts)
    endpoints = [endpoint for _, group in tier for endpoint, _ in group]
    divided = iter(divide_for_canary(endpoints, [*chain.from_iterable(shares)]))
    for entry, group in tier:
        limits = balancing.Limits.read(entry)
        for endpoint, target in group:
            yield Selected(endpoint, target, next(divided), entry.priority, limits)


@lru_cache(maxsize=1 << 14)
def find_ip_version(host: str) -> int:
    """Return 4 or 6 for an IP address, 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
