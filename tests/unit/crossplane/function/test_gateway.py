"""What the function takes the fleet's gateway to be, by what it was given."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from modelplane.api.inference_gateway import Backend, InferenceGateway
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import NoFacts, Request, Unknown
from modelplane.compose.facts import GatewayFacts
from modelplane.compose.gateway.fleet_gateway import KEYS_KEY
from modelplane.compose.gateway.inference_gateway import CLUSTERS
from modelplane.crossplane.function import gateway_facts
from modelplane.gateway import configuration_state, tokens
from modelplane.gateway.configuration_state import GatewayState
from modelplane.gateway.tokens import SETTLED, GatewayKeys

ADDRESS = "203.0.113.1"
PODS = {"envoy-service": {"kind": "Service"}}


def asked(
    backend: Backend, status: str = "", observed: tuple[str, ...] = ()
) -> Request[InferenceGateway, NoFacts]:
    owner: dict[str, Any] = {"metadata": {"name": "default", "uid": "uid"}, "spec": {"backend": backend}}
    if status:
        owner["status"] = {"backend": status, "address": ADDRESS}
    decoded = decode_as(InferenceGateway, owner)
    return Request(decoded, {key: {} for key in observed}, {}, NoFacts())


def facts(
    request: Request[InferenceGateway, NoFacts], found: Mapping[str, tuple[dict[str, Any], ...] | Unknown]
) -> GatewayFacts:
    return gateway_facts.build_facts(request, found, ADDRESS, PODS)


def service(address: str, reason: str = "RouteConfigured", *, resolved: bool = True) -> dict[str, Any]:
    holds = "True" if reason == "RouteConfigured" else "False"
    routing = {"type": "RoutingReady", "status": holds, "reason": reason}
    endpoints = {"type": "EndpointsResolved", "status": str(resolved), "reason": "Any"}
    return {
        "metadata": {"namespace": "ml", "name": "qwen"},
        "status": {"address": address and f"http://{address}/ml/qwen", "conditions": [routing, endpoints]},
    }


@pytest.mark.parametrize(
    ("found", "is_needed"),
    [
        pytest.param(service(ADDRESS), False, id="a service that is routed at the new address"),
        pytest.param(service("203.0.113.7"), True, id="a service at the former address"),
        pytest.param(service("203.0.113.11"), True, id="an address that begins like the new one"),
        pytest.param(service(ADDRESS, "Configuring"), True, id="a service whose route is not accepted yet"),
        pytest.param(
            service(ADDRESS, "Configuring", resolved=False), False, id="a service without endpoints"
        ),
        pytest.param(service(ADDRESS, "Unsupported"), False, id="a service that is refused in part"),
        pytest.param(service(""), False, id="a service that was never published"),
    ],
)
def test_the_pods_of_envoy_are_needed_by(found: dict[str, Any], *, is_needed: bool) -> None:
    request = asked(Backend.GATEWAY_API, "GatewayAPI", ("envoy-service",))
    seen = facts(request, {gateway_facts.SERVICES: (found,)})
    assert bool(seen.envoy_is_needed_by) is is_needed


def test_services_that_cannot_be_read_may_need_the_pods() -> None:
    request = asked(Backend.GATEWAY_API, "GatewayAPI", ("envoy-service",))
    seen = facts(request, {gateway_facts.SERVICES: Unknown("forbidden")})
    assert "forbidden" in seen.envoy_is_needed_by


def test_a_backend_that_never_was_envoy_asks_for_no_service() -> None:
    request = asked(Backend.TRAEFIK, "Traefik", ("traefik",))
    keys = [each.key for each in gateway_facts.requirements(request.owner, request.observed)]
    assert keys == []
    assert facts(request, {}).envoy_is_needed_by == ""


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param(
            "", "the state of the gateway's configuration is not reported yet", id="before the first"
        ),
        pytest.param("Envoy", "", id="once it has served"),
    ],
)
def test_a_state_that_is_missing_holds_up_only_a_gateway_that_never_served(status: str, problem: str) -> None:
    seen = facts(asked(Backend.ENVOY, status), {gateway_facts.STATE: ()})
    assert seen.problem == problem
    assert (seen.asks_for_keys, seen.has_tls) == (False, False)


def test_what_is_reported_is_what_the_request_says() -> None:
    reported = GatewayState(
        problem="a", without_module="b", tls_problem="c", asks_for_keys=True, has_tls=True
    )
    found = {gateway_facts.STATE: (configuration_state.build_manifest(reported, "modelplane-system"),)}
    seen = facts(asked(Backend.ENVOY), found)
    assert (seen.problem, seen.without_module, seen.tls_problem) == ("a", "b", "c")
    assert (seen.asks_for_keys, seen.has_tls, seen.proxy) == (True, True, Backend.ENVOY)
    assert seen.pods == PODS


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = GatewayKeys({1: b"k" * 32})
ENVOYS = GatewayState(keys_sent={"1": NOW - SETTLED})
CLUSTER: dict[str, Any] = {"status": {"gateway": {"address": ADDRESS}}}


def keys(
    backend: Backend,
    found: tuple[dict[str, Any], ...] | Unknown,
    *,
    clusters: tuple[dict[str, Any], ...] | Unknown = (CLUSTER,),
    reported: GatewayState | None = None,
    changed: datetime | None = None,
) -> GatewayKeys | None:
    """Return the keys that the InferenceGateway is to compose."""
    request = msgspec.structs.replace(asked(backend), required={CLUSTERS.key: clusters}, now=NOW)
    if changed:
        fields = [{"manager": "crossplane", "time": f"{changed:%Y-%m-%dT%H:%M:%SZ}"}]
        request = msgspec.structs.replace(
            request, observed={KEYS_KEY: {"metadata": {"managedFields": fields}}}
        )
    given: dict[str, Any] = {KEYS_KEY: found}
    if reported:
        given[gateway_facts.STATE] = (configuration_state.build_manifest(reported, "modelplane-system"),)
    return facts(request, given).keys


def secret(read: GatewayKeys = KEYS) -> tuple[dict[str, Any], ...]:
    return (dict(tokens.build_manifest(read, "modelplane-system")),)


@pytest.mark.parametrize(
    ("clusters", "required"),
    [
        pytest.param((), 1, id="required at once without a cluster"),
        pytest.param((CLUSTER,), 0, id="later with clusters, which may have requests in progress"),
        pytest.param(Unknown("forbidden"), 0, id="later while clusters cannot be read"),
    ],
)
def test_the_first_key_is_random(clusters: tuple[dict[str, Any], ...] | Unknown, required: int) -> None:
    made = [keys(Backend.ENVOY, (), clusters=clusters) for _ in range(2)]
    assert made[0] is not None
    assert made[1] is not None
    assert (list(made[0].keys), made[0].required) == ([1], required)
    assert made[0].keys != made[1].keys


@pytest.mark.parametrize(
    ("found", "reported", "required"),
    [
        pytest.param(secret(), ENVOYS, 1, id="Envoy sends its tokens"),
        pytest.param(secret(), GatewayState(), 0, id="Envoy does not send them yet"),
        pytest.param(secret(), None, 0, id="nothing is reported"),
        pytest.param(secret(replace(KEYS, required=1)), None, 1, id="never less than before"),
        pytest.param(secret(replace(KEYS, is_off=True)), ENVOYS, 0, id="turned off"),
    ],
)
def test_envoy_reports_which_tokens_it_sends(
    found: tuple[dict[str, Any], ...], reported: GatewayState | None, required: int
) -> None:
    known = keys(Backend.ENVOY, found, reported=reported)
    assert known is not None
    assert (known.keys, known.required) == (KEYS.keys, required)


@pytest.mark.parametrize(
    ("changed", "required"),
    [
        pytest.param(NOW - timedelta(hours=1), 1, id="an hour after the last change"),
        pytest.param(NOW - timedelta(minutes=59), 0, id="not before"),
        pytest.param(None, 0, id="not while the time is unknown"),
    ],
)
def test_another_gateway_has_an_hour_to_send_tokens(changed: datetime | None, required: int) -> None:
    known = keys(Backend.GATEWAY_API, secret(), changed=changed)
    assert known is not None
    assert known.required == required


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(Unknown("no answer"), id="not readable"),
        pytest.param(({"metadata": {}, "data": {}},), id="without a key"),
    ],
)
def test_keys_that_are_not_known_are_not_composed(found: tuple[dict[str, Any], ...] | Unknown) -> None:
    assert keys(Backend.ENVOY, found) is None
