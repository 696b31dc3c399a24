"""Routes of a service on a gateway of the Gateway API: a tree of rules.

A rule has at most sixteen backends, and rules with equal matches do not add up: the oldest gets every
request. Some gateways replace a path for a whole rule only. So where one rule is not enough, its backends are
the gateway itself, each with a header that names the next rule, and weighs as much as the endpoints below it.

Each step replaces the path for the whole rule, ``/NAMESPACE/SERVICE/`` by ``/NAMESPACE/SERVICE~20.1/`` and
so on: a gateway that drops the header answers 404, instead of sending a request to itself again. The first
number is that of the leaves: a tree of another shape has other paths and routes, so that both can be there
until the service's route leads to the new one.

Implementations of the Gateway API differ in the filters that these routes need. Its conformance tests cover a
path that is replaced for a whole rule, and a header that is set for one backend, but no path that is replaced
for one backend: some implementations refuse that, and others ignore it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

from modelplane.api.inference_gateway import Backend
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.model_service import ModelService
from modelplane.api.names import child_name, name_backend, name_front
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.gateway import tokens
from modelplane.gateway.balancing import limit_weights
from modelplane.gateway.gateway_api.endpoint_backends import FRONT_PORT, GATEWAY, Manifest
from modelplane.gateway.route_table import Token
from modelplane.gateway.services import Selected, find_ip_version, find_rewriting
from modelplane.gateway.tokens import GatewayKeys

ROUTE: Final = "httproute"
"""Key of the HTTPRoute that takes a service's requests; those of further steps have numbers behind it."""

HEADER: Final = "Modelplane-Step"
"""Header that names the next rule of a request."""

MOST: Final = 16
"""Maximum of rules of a route, and of backends of a rule (Gateway API, ``HTTPRouteSpec``)."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Implementation:
    """An implementation of the Gateway API, for the rules of a service."""

    controller: str
    """Its controller's name in the status of routes."""
    rewrites_per_backend: bool
    """True if it replaces path and Host for one backend of several (``backendRefs[].filters``)."""
    sets_headers_per_backend: bool
    """True if it sets a header for one backend (HTTPRouteBackendRequestHeaderModification)."""
    has_timeouts: bool
    """True if it honors ``timeouts``; otherwise its own apply."""
    source: str
    """The documentation of this. The project has run none of them."""


TRAEFIK: Final = Implementation(
    "traefik.io/gateway-controller",
    rewrites_per_backend=True,
    sets_headers_per_backend=True,
    has_timeouts=False,
    source="Traefik 3.7.6, the features that its provider reports; without timeouts, it has none of its own",
)

ENVOY_GATEWAY: Final = Implementation(
    "gateway.envoyproxy.io/gatewayclass-controller",
    rewrites_per_backend=False,
    sets_headers_per_backend=True,
    has_timeouts=True,
    source='Envoy Gateway 1.8, its error "URLRewrite path modifier is not supported within BackendRef"',
)

OTHER: Final = Implementation(
    "",
    rewrites_per_backend=False,
    sets_headers_per_backend=True,
    has_timeouts=False,
    source="Gateway API 1.5, the extended features of HTTPRoute",
)
"""Any other: only what the conformance tests cover is relied on."""

IMPLEMENTATIONS: Final = (TRAEFIK, ENVOY_GATEWAY, OTHER)


def find_implementation(backend: str, routes: Iterable[Mapping[str, Any]]) -> Implementation:
    """Return the implementation of a backend; if unknown, that of the controller that reports on routes."""
    if named := {str(Backend.TRAEFIK): TRAEFIK, str(Backend.ENVOY_GATEWAY): ENVOY_GATEWAY}.get(backend):
        return named
    reporting = {
        parent.get("controllerName", "")
        for route in routes
        for parent in get_list(route, "status", "parents")
    }
    return next(
        (implementation for implementation in IMPLEMENTATIONS if implementation.controller in reporting),
        OTHER,
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Endpoints of one rule."""

    endpoints: tuple[Selected, ...]

    @property
    def weight(self) -> int:
        """The sum of their weights."""
        return sum(endpoint.weight for endpoint in self.endpoints)


@dataclass(frozen=True, slots=True)
class _Step:
    """Rules that a rule divides requests among."""

    below: "tuple[_Leaf | _Step, ...]"

    @property
    def weight(self) -> int:
        """The sum of their weights."""
        return sum(step.weight for step in self.below)


@dataclass(frozen=True, slots=True)
class _Place:
    """A rule's place in the tree of a service."""

    service: ModelService
    leaves: int
    keys: GatewayKeys
    depth: int = 0
    name: str = ""

    def build_prefix(self, depth: int) -> str:
        metadata = self.service.metadata
        return f"/{metadata.namespace}/{metadata.name}{f'~{self.leaves}.{depth}' if depth else ''}/"

    def match(self, below: str = "") -> Manifest:
        match: Manifest = {"path": {"type": "PathPrefix", "value": f"{self.build_prefix(self.depth)}{below}"}}
        if self.name:
            match["headers"] = [{"name": HEADER, "value": self.name}]
        return match

    def find_next(self, number: int) -> "_Place":
        name = f"{self.name}.{number}" if self.name else str(number)
        return _Place(self.service, self.leaves, self.keys, self.depth + 1, name)


def has_steps(routes: Mapping[str, Manifest]) -> bool:
    """Return True if the routes of a service lead back to the gateway."""
    return len(routes) > 1


def find_replacement(route: Mapping[str, Any]) -> str:
    """Return the path that the route of a service replaces the prefix by; empty if it has none for a rule."""
    for rule in get_list(route, "spec", "rules")[:1]:
        for filter_ in rule.get("filters", ()):
            return str(get_map(filter_, "urlRewrite", "path").get("replacePrefixMatch", ""))
    return ""


def has_rewrites_per_backend(route: Mapping[str, Any]) -> bool:
    """Return True if a route replaces the path for single backends."""
    rules = get_list(route, "spec", "rules")
    references = (reference for rule in rules for reference in rule.get("backendRefs", ()))
    filters = (filter_ for reference in references for filter_ in reference.get("filters", ()))
    return any(filter_.get("type") == "URLRewrite" for filter_ in filters)


def build_routes(
    service: ModelService,
    selected: Sequence[Selected],
    keys: GatewayKeys = GatewayKeys(),  # noqa: B008 - it is immutable
    *,
    per_backend: bool,
) -> dict[str, Manifest]:
    """Return the HTTPRoutes of a service by key. ``per_backend``: the gateway rewrites for one backend.

    ``keys`` are those of the tokens by which the clusters' gateways know the fleet's.
    """
    tree = _tree(selected, per_backend=per_backend)
    leaves = _leaves(tree)
    first, *rest = _rules(tree, _Place(service, leaves, keys), per_backend=per_backend)
    manifests = {ROUTE: _route(service, "route", first)}
    for number, chunk in enumerate(_chunks([rule for rules in rest for rule in rules]), start=1):
        part = f"{leaves}-{number}"
        manifests[f"{ROUTE}-{part}"] = _route(service, f"route-{part}", chunk)
    return manifests


def _leaves(node: "_Leaf | _Step") -> int:
    return 1 if isinstance(node, _Leaf) else sum(map(_leaves, node.below))


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield items in groups of as many as a rule or a route takes."""
    return (items[start : start + MOST] for start in range(0, len(items), MOST))


def _tree(selected: Sequence[Selected], *, per_backend: bool) -> _Leaf | _Step:
    alike = [tuple(selected)]
    if not per_backend:
        alike = [tuple(group) for _, group in groupby(sorted(selected, key=_rewrites), key=_rewrites)]
    nodes: list[_Leaf | _Step] = [_Leaf(tuple(chunk)) for group in alike for chunk in _chunks(group)]
    nodes = nodes or [_Leaf(())]
    while len(nodes) > MOST:
        nodes = [_Step(tuple(chunk)) for chunk in _chunks(nodes)]
    return nodes[0] if len(nodes) == 1 else _Step(tuple(nodes))


def _rewrites(selected: Selected) -> tuple[str, str]:
    host = selected.target.host
    return "" if find_ip_version(host) else host, find_rewriting(selected.endpoint)[0]


def _rules(node: _Leaf | _Step, place: _Place, *, per_backend: bool) -> Iterator[list[Manifest]]:
    """Yield the rules of each node, the first node first."""
    if isinstance(node, _Leaf):
        versions = sorted(
            {overlap for endpoint in node.endpoints if (overlap := find_rewriting(endpoint.endpoint)[1])}
        )
        # The longest prefix wins: a path that already has the API version does not get it twice.
        yield [_leaf(node, place, version, per_backend=per_backend) for version in (*versions, "")]
        return
    weights = limit_weights([step.weight for step in node.below])
    below = [(place.find_next(number), step) for number, step in enumerate(node.below, start=1)]
    yield [
        _rule(
            place.match(),
            [_rewrite("", place.build_prefix(place.depth + 1))],
            [
                _to_itself(inner_place, weight)
                for (inner_place, _), weight in zip(below, weights, strict=True)
            ],
        )
    ]
    for inner_place, inner in below:
        yield from _rules(inner, inner_place, per_backend=per_backend)


def _leaf(leaf: _Leaf, place: _Place, version: str, *, per_backend: bool) -> Manifest:
    below = f"{version}/" if version else ""
    # A gateway that has replaced the prefix on the way has to restore it.
    usual = place.build_prefix(0) if place.depth else ""
    filters = [_filter_of(endpoint, version, below, usual) for endpoint in leaf.endpoints]
    weights = limit_weights([endpoint.weight for endpoint in leaf.endpoints])
    references = []
    for selected, weight, own in zip(leaf.endpoints, weights, filters, strict=True):
        name = name_backend(selected.endpoint.metadata.name)
        reference: Manifest = {"name": name, "port": selected.target.port, "weight": weight}
        if per_backend and (of_backend := [*filter(None, (own, _headers(sent=_tokens(selected, place))))]):
            reference["filters"] = of_backend
        references.append(reference)
    removed = [HEADER] if place.depth else []
    if per_backend:
        return _rule(place.match(below), [*filter(None, [_headers(removed)])], references)
    # Each replica has a path, and so a rule, of its own.
    sent = [token for endpoint in leaf.endpoints[:1] for token in _tokens(endpoint, place)]
    of_rule = [*filter(None, (_headers(removed, sent), *filters[:1]))]
    return _rule(place.match(below), of_rule, references)


def _tokens(selected: Selected, place: _Place) -> tuple[Token, ...]:
    metadata = selected.endpoint.metadata
    known = tokens.list_tokens(place.keys, f"{metadata.namespace}/{metadata.name}")
    return known if selected.target.is_of_replica else ()


def _headers(removed: Sequence[str] = (), sent: Sequence[Token] = ()) -> Manifest:
    """Return the filter that removes and sets headers; empty if there is nothing to do."""
    modifier: Manifest = {"remove": list(removed)} if removed else {}
    if sent:
        modifier["set"] = [{"name": token.header, "value": token.value} for token in sent]
    return {"type": "RequestHeaderModifier", "requestHeaderModifier": modifier} if modifier else {}


def _filter_of(selected: Selected, version: str, below: str, usual: str) -> Manifest:
    """Return the filter for one endpoint; empty if nothing is replaced."""
    host = "" if find_ip_version(selected.target.host) else selected.target.host
    path, overlap = find_rewriting(selected.endpoint)
    path = path or usual
    replacement = path if not path or (version and overlap == version) else f"{path}{below}"
    return _rewrite(host, replacement) if host or replacement else {}


def _rewrite(host: str, path: str) -> Manifest:
    rewrite: Manifest = {"hostname": host} if host else {}
    if path:
        rewrite["path"] = {"type": "ReplacePrefixMatch", "replacePrefixMatch": path}
    return {"type": "URLRewrite", "urlRewrite": rewrite}


def _to_itself(place: _Place, weight: int) -> Manifest:
    """Return the reference to the gateway itself, with the header for the rule at a place."""
    named = {"set": [{"name": HEADER, "value": place.name}]}
    return {
        "name": name_front(place.service.metadata.name),
        "port": FRONT_PORT,
        "weight": weight,
        "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": named}],
    }


def _rule(match: Manifest, filters: list[Manifest], references: list[Manifest]) -> Manifest:
    return {
        "matches": [match],
        **({"filters": filters} if filters else {}),
        "backendRefs": references,
        # A stream lasts as long as the model generates.
        "timeouts": {"request": "0s"},
    }


def _route(service: ModelService, part: str, rules: Sequence[Manifest]) -> Manifest:
    metadata = service.metadata
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": child_name(metadata.name, part), "namespace": metadata.namespace},
        "spec": {"parentRefs": [{"name": GATEWAY, "namespace": SYSTEM_NAMESPACE}], "rules": list(rules)},
    }
