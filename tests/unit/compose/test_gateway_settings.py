"""Every setting of the gateway: what a backend without words for it says, field by field.

A field without a row fails, so that no new setting is dropped silently.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from modelplane.api.inference_gateway import Backend, InferenceGateway
from modelplane.api.meta import Model
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Request
from modelplane.compose.facts import GatewayFacts, ServiceFacts
from modelplane.compose.kinds import COMPOSERS
from modelplane.gateway.gateway_api.route_tree import ROUTE

OTHERS = (Backend.TRAEFIK, Backend.ENVOY_GATEWAY, Backend.GATEWAY_API)
PARTS = {"Traefik": {"traefik": {"version": "41.3.0"}}}


@dataclass(frozen=True)
class Refused:
    """A setting that these backends ignore, and the condition that says so."""

    type: str
    reason: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    """A spec with the setting."""
    named: str = ""
    """The words by which the message names it."""
    by: tuple[Backend, ...] = OTHERS


HONORED = None
KEY = {"hashes": [{"sha256": "ab" * 32}]}
SELECTOR: dict[str, Any] = {"selector": {"matchLabels": {}}}
TLS = Refused("Secured", "Unsupported", {"tls": {"certificateRefs": [{"name": "front"}]}}, "spec.tls")
GRANTS = Refused("SettingsSupported", "Unsupported", {"keyGrants": [{"namespace": "a"}]}, "spec.keyGrants")
ALIASES = Refused(
    "SettingsSupported",
    "Unsupported",
    {"aliases": [{"name": "gpt", "service": "a/b", "namespaces": ["*"]}]},
    "spec.aliases",
)
CREDENTIAL = Refused(
    "RoutingReady", "Unsupported", {"credential": {"secretRef": {"name": "provider"}}}, "spec.credential"
)

MUTUAL = Refused(
    "RoutingReady",
    "Unsupported",
    {
        "url": "https://192.0.2.1/",
        "rewritePath": "/ml-team/qwen-1/",
        "mutualTLS": {"serverName": "a.clusters.modelplane.internal"},
    },
    "spec.mutualTLS",
)

ROWS: dict[type[Model], dict[str, Refused | None]] = {
    InferenceGateway: {
        "backend": HONORED,
        "traefik": Refused(
            "SettingsSupported",
            "Unsupported",
            {"traefik": {"version": "41.3.0"}},
            "spec.traefik",
            (Backend.ENVOY_GATEWAY, Backend.GATEWAY_API),
        ),
        "envoyGateway": Refused(
            "SettingsSupported",
            "Unsupported",
            {"envoyGateway": {}},
            "spec.envoyGateway",
            (Backend.TRAEFIK, Backend.GATEWAY_API),
        ),
        "allowedDestinations": HONORED,
        "deniedDestinations": HONORED,
        "authentication": Refused(
            "Authenticated", "Unsupported", {"authentication": "APIKey"}, "does not read ModelKeys"
        ),
        "keyGrants": GRANTS,
        "tls": TLS,
        "aliases": ALIASES,
        "pricing": Refused(
            "SettingsSupported",
            "Unsupported",
            {
                "pricing": {
                    "currency": "USD",
                    "prices": [{"name": "all", "promptPerMillion": "1", "completionPerMillion": "1"}],
                }
            },
            "spec.pricing",
        ),
        "rateLimitService": Refused(
            "SettingsSupported",
            "Unsupported",
            {"rateLimitService": {"host": "ratelimit.example"}},
            "spec.rateLimitService",
        ),
        "numTrustedHops": Refused(
            "SettingsSupported", "Unsupported", {"numTrustedHops": 1}, "spec.numTrustedHops"
        ),
    },
    ModelService: {
        "endpoints[].priority": Refused(
            "RoutingReady",
            "Unsupported",
            {"endpoints": [SELECTOR | {"selector": {"matchLabels": {"a": "b"}}}, SELECTOR | {"priority": 1}]},
            "a backend without priorities",
        ),
        "endpoints[].weight": HONORED,
        "endpoints[].selector": HONORED,
        "endpoints[].maxOutstandingRequests": Refused(
            "RoutingReady",
            "Unsupported",
            {"endpoints": [SELECTOR | {"maxOutstandingRequests": 8}]},
            "maxOutstandingRequests",
        ),
        "endpoints[].maxQueuedRequests": Refused(
            "RoutingReady",
            "Unsupported",
            {"endpoints": [SELECTOR | {"maxQueuedRequests": 8}]},
            "maxQueuedRequests",
        ),
        "endpoints[].budget": Refused(
            "WithinBudget",
            "NoMetrics",
            {"endpoints": [SELECTOR | {"budget": {"tokensPerDay": 1000}}]},
            "not counted",
        ),
        "balancing": Refused(
            "RoutingReady",
            "Unsupported",
            {"endpoints": [SELECTOR], "balancing": {"policy": "LeastRequests"}},
            "spec.balancing",
        ),
        "hold": Refused("RoutingReady", "Unsupported", {"endpoints": [SELECTOR], "hold": {}}, "spec.hold"),
        "aliases": Refused(
            "SettingsSupported",
            "Unsupported",
            {"endpoints": [SELECTOR], "aliases": ["gpt"]},
            "spec.aliases",
        ),
    },
    ModelEndpoint: {
        "url": HONORED,
        "rewritePath": HONORED,
        "region": HONORED,
        "model": Refused("RoutingReady", "Unsupported", {"model": "gpt"}, "spec.model"),
        "credential": CREDENTIAL,
        "mutualTLS": MUTUAL,
    },
}
LISTS = {"endpoints"}
"""Lists of groups whose own fields have rows."""


def _struct(hint: Any) -> type[Model] | None:
    """Return the struct in a type, through annotations, options and tuples."""
    if get_origin(hint) is Annotated:
        return _struct(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType, tuple):
        return next(filter(None, map(_struct, get_args(hint))), None)
    return hint if isinstance(hint, type) and issubclass(hint, Model) else None


def _spec(kind: type[Model]) -> type[Model]:
    found = _struct(get_type_hints(kind, include_extras=True)["spec"])
    assert found is not None
    return found


def _paths(kind: type[Model]) -> Iterator[str]:
    spec = _spec(kind)
    hints = get_type_hints(spec, include_extras=True)
    for each in msgspec.structs.fields(spec):
        inner = _struct(hints[each.name]) if each.encode_name in LISTS else None
        if inner is None:
            yield each.encode_name
        else:
            yield from (f"{each.encode_name}[].{one.encode_name}" for one in msgspec.structs.fields(inner))


@pytest.mark.parametrize(
    "kind", [InferenceGateway, ModelService, ModelEndpoint], ids=lambda kind: kind.__name__
)
def test_every_field_has_a_row(kind: type[Model]) -> None:
    assert sorted(_paths(kind)) == sorted(ROWS[kind])


def _object(
    kind: type[Model], spec: Mapping[str, Any], labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    name = "default" if kind is InferenceGateway else "one"
    metadata = {"name": name, "uid": "uid", "generation": 1, "labels": dict(labels or {})}
    if kind is not InferenceGateway:
        metadata["namespace"] = "ml-team"
    composer = COMPOSERS[kind.__name__]
    return {
        "apiVersion": composer.api_version,
        "kind": kind.__name__,
        "metadata": metadata,
        "spec": dict(spec),
    }


def _conditions(
    kind: type[Model], spec: Mapping[str, Any], backend: Backend
) -> dict[str, tuple[str, str, str]]:
    """Return the conditions of an object whose gateway has a backend under Crossplane."""
    own = {"backend": str(backend), **PARTS.get(backend, {})}
    gateway = _object(InferenceGateway, own) | {"status": {"address": "203.0.113.1", "backend": str(backend)}}
    if kind is InferenceGateway:
        spec = {**own, **spec}
    elif kind is ModelEndpoint:
        spec = {"url": "https://api.example.com", **spec}
    endpoints = [
        _object(ModelEndpoint, {"url": f"http://192.0.2.{number}"}, {"a": value})
        | {"metadata": {"name": f"e{number}", "namespace": "ml-team", "labels": {"a": value}}}
        for number, value in ((1, "b"), (2, "c"))
    ]
    accepted = {"conditions": [{"type": "Accepted", "status": "True"}]}
    route = {"metadata": {"generation": 1}, "spec": {}, "status": {"parents": [accepted]}}
    required = {"gateway": (gateway,), "endpoints": tuple(endpoints)}
    composer = COMPOSERS[kind.__name__]
    owner = decode_as(kind, _object(kind, spec))
    required |= {each.key: () for each in composer.requirements(owner) if each.key not in required}
    observed = {ROUTE: route} if kind is ModelService else {}
    facts = {
        InferenceGateway: GatewayFacts("203.0.113.1", Backend.GATEWAY_API),
        ModelService: ServiceFacts(Backend.GATEWAY_API),
    }
    asked = Request(owner, observed, required, facts.get(kind, composer.facts()))
    composed = composer.compose(asked)
    assert isinstance(composed, Composition)
    return {each.type: (each.status, each.reason, each.message) for each in composed.conditions}


CASES = [
    pytest.param(kind, row, backend, id=f"{kind.__name__} {path} with {backend}")
    for kind, rows in ROWS.items()
    for path, row in rows.items()
    if row is not HONORED
    for backend in row.by
]


@pytest.mark.parametrize(("kind", "row", "backend"), CASES)
def test_a_setting_without_words_is_refused_in_a_condition_that_names_it(
    kind: type[Model], row: Refused, backend: Backend
) -> None:
    status, reason, message = _conditions(kind, row.spec, backend)[row.type]
    assert (status, reason) == ("False", row.reason)
    assert row.named in message


@pytest.mark.parametrize("backend", OTHERS)
def test_a_key_says_that_the_gateway_asks_for_none(backend: Backend) -> None:
    status, reason, message = _conditions(ModelKey, KEY, backend)["Authenticated"]
    assert (status, reason) == ("False", "Open")
    assert "doesn't require keys" in message


@pytest.mark.parametrize("backend", OTHERS)
def test_nothing_is_refused_without_such_a_setting(backend: Backend) -> None:
    for kind, spec in (
        (InferenceGateway, {}),
        (ModelService, {"endpoints": [SELECTOR]}),
        (ModelEndpoint, {}),
    ):
        assert "SettingsSupported" not in _conditions(kind, spec, backend)
