"""What each kind composes: the input of a golden case goes in, and its output must come out.

``make golden`` writes the expected files anew; review the difference before committing it.
"""

import difflib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from modelplane.api.inference_gateway import Backend
from modelplane.api.schema.decode import convert, decode_as
from modelplane.compose.cluster.cluster_facts import ClusterFacts, Credential
from modelplane.compose.composition import (
    Blocked,
    Composition,
    Desired,
    Request,
    Silence,
    Unknown,
)
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.facts import (
    AutoscalerFacts,
    EndpointFacts,
    GatewayFacts,
    KeyFacts,
    ReplicaFacts,
    ServiceFacts,
)
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.serving_stack.component import StackFacts
from modelplane.deciders.autoscaling.autoscaler_state import AutoscalerState
from modelplane.deciders.canary import Observed
from modelplane.deciders.cluster_health import ClusterState, Standing, Watched
from modelplane.gateway.mutual_tls import Link
from modelplane.gateway.tokens import read as read_keys
from modelplane.install import crossplane_gateway
from modelplane.install.installation_options import Options
from support.document_patches import is_same
from support.goldens import GOLDENS

UPDATE = "MODELPLANE_UPDATE_GOLDEN"
FIELDS = {
    *("owner", "observed", "required", "proxy", "silence", "credential", "keyProblem"),
    *("autoscaling", "gatewayPods", "gatewayHasTls", "envoyIsNeededBy", "knowsKeysInForce", "mutualTLS"),
    "now",
    "gatewayKeys",
    "watched",
    "canary",
    "gatewayAnswer",
    *("gatewayAddress", "gatewayProblem", "gatewayTlsProblem", "gatewayWithoutModule", "gatewayAsksForKeys"),
}


def compose(case: dict[str, Any]) -> Composition | Blocked:
    """Return the composition of the owner of a case."""
    assert set(case) <= FIELDS
    owner = case["owner"]
    kind = COMPOSERS[owner["kind"]]
    required: dict[str, Any] = {
        key: Unknown(found["unknown"], forbidden=found.get("forbidden", False))
        if isinstance(found, dict)
        else tuple(found)
        for key, found in case.get("required", {}).items()
    }
    now = datetime.fromtimestamp(case["now"], UTC) if "now" in case else None
    tell = FACTS.get(kind.name)
    facts = tell(case) if tell else kind.facts()
    request = Request(decode_as(kind.type, owner), case.get("observed", {}), required, facts, now)
    for requirement in kind.requirements(request.owner):
        required.setdefault(requirement.key, ())
    return kind.compose(request)


def _gateway(case: dict[str, Any]) -> GatewayFacts:
    return GatewayFacts(
        case.get("gatewayAddress", ""),
        Backend(case.get("proxy", Backend.ENVOY)),
        problem=case.get("gatewayProblem", ""),
        tls_problem=case.get("gatewayTlsProblem", ""),
        without_module=case.get("gatewayWithoutModule", ""),
        asks_for_keys=case.get("gatewayAsksForKeys", False),
        pods=crossplane_gateway.build_children(Options()) if case.get("gatewayPods") else {},
        keys=read_keys(case["gatewayKeys"]) if "gatewayKeys" in case else None,
        has_tls=case.get("gatewayHasTls"),
        envoy_is_needed_by=case.get("envoyIsNeededBy", ""),
    )


def _service(case: dict[str, Any]) -> ServiceFacts:
    proxy = Backend(case.get("proxy", Backend.ENVOY))
    return ServiceFacts(proxy, gateway_without_module=case.get("gatewayWithoutModule", ""))


def _endpoint(case: dict[str, Any]) -> EndpointFacts:
    return EndpointFacts(gateway_without_module=case.get("gatewayWithoutModule", ""))


def _key(case: dict[str, Any]) -> KeyFacts:
    return KeyFacts(case.get("keyProblem"), is_reported=case.get("knowsKeysInForce", True))


def _autoscaler(case: dict[str, Any]) -> AutoscalerFacts:
    decided = convert(case["autoscaling"], AutoscalerState) if "autoscaling" in case else None
    return AutoscalerFacts(decided, case.get("gatewayWithoutModule", ""))


def _deployment(case: dict[str, Any]) -> DeploymentFacts:
    canary = convert(case["canary"], Observed) if "canary" in case else None
    return DeploymentFacts(canary, _watched(case), observes_capacity="now" in case)


def _cluster(case: dict[str, Any]) -> ClusterFacts | Blocked:
    link = _link(case)
    if isinstance(link, Blocked):
        return link
    return ClusterFacts(
        credential=Credential(**case["credential"]) if "credential" in case else None,
        silence=_silence(case),
        observes_capacity="now" in case,
        gateway_answer=case.get("gatewayAnswer"),
        mutual_tls=link,
        watched=_watched(case),
    )


def _stack(case: dict[str, Any]) -> StackFacts | Blocked:
    link = _link(case)
    return link if isinstance(link, Blocked) else StackFacts(link)


def _link(case: dict[str, Any]) -> Link | Blocked | None:
    link = case.get("mutualTLS")
    if link is None:
        return None
    return Blocked(link["unknown"]) if "unknown" in link else convert(link, Link)


def _replica(case: dict[str, Any]) -> ReplicaFacts:
    return ReplicaFacts(silence=_silence(case))


def _silence(case: dict[str, Any]) -> Silence | None:
    return Silence(**case["silence"]) if "silence" in case else None


def _watched(case: dict[str, Any]) -> Watched | None:
    if "watched" not in case:
        return None
    watched = case["watched"]
    standing = watched.get("standing")
    told = Standing(ClusterState(standing["state"]), standing["cause"]) if standing else None
    return Watched(told, watched.get("lost", {}), watched.get("paused", ""))


FACTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "InferenceAutoscaler": _autoscaler,
    "InferenceCluster": _cluster,
    "InferenceGateway": _gateway,
    "ModelDeployment": _deployment,
    "ModelEndpoint": _endpoint,
    "ModelKey": _key,
    "ModelReplica": _replica,
    "ModelService": _service,
    "ServingStack": _stack,
}
"""What tells the facts of a case, by its kind."""


def _written(composition: Composition | Blocked) -> dict[str, Any]:
    if isinstance(composition, Blocked):
        return {"doubt": composition.cause}
    written: dict[str, Any] = {"children": [_child(child) for child in composition.children]}
    written["status"] = composition.status
    written["conditions"] = [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        for condition in composition.conditions
    ]
    written["ready"] = composition.ready
    written["short"] = composition.unsatisfied
    if composition.again_in_s is not None:
        written["again"] = composition.again_in_s
    if composition.wakes:
        written["wakes"] = [f"{each.kind} {each.namespace}/{each.name}" for each in composition.wakes]
    if composition.guards:
        written["guards"] = [str(guard) for guard in composition.guards]
    if composition.routes:
        written["routes"] = composition.routes
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(written))
    for backend in (each for route in plain.get("routes", ()) for each in route["backends"]):
        if backend["priority"] == 0:
            del backend["priority"]  # of a route without tiers
        if not backend["server_name"]:
            del backend["server_name"]  # of a backend without mutual TLS
    return plain


def _child(child: Any) -> dict[str, Any]:
    if not isinstance(child, Desired):
        return {"keep": child.key}
    return {"key": child.key, "cluster": child.cluster, "manifest": child.manifest}


@pytest.fixture(scope="module", autouse=True)
def _updated() -> None:
    if os.environ.get(UPDATE):
        outputs = {name: _written(compose(GOLDENS.input(name))) for name in GOLDENS.names()}
        GOLDENS.write(GOLDENS.with_outputs(outputs))


def _text(output: Any) -> list[str]:
    return yaml.safe_dump(output, sort_keys=True, allow_unicode=True, width=110).splitlines()


@pytest.mark.parametrize("name", GOLDENS.names())
def test_a_composition_is_the_output_of_its_case(name: str) -> None:
    written, expected = _written(compose(GOLDENS.input(name))), GOLDENS.output(name)
    if not is_same(written, expected):
        changes = difflib.unified_diff(_text(expected), _text(written), "expected", "composed", lineterm="")
        pytest.fail("\n".join((GOLDENS.reason(name), *changes)), pytrace=False)


def test_every_file_is_as_it_is_written_anew() -> None:
    """A patch that could be shorter, a base that no case needs, and a program that none has make it fail."""
    cases = GOLDENS.with_outputs({name: GOLDENS.output(name) for name in GOLDENS.names()})
    files, present = GOLDENS.files(cases), GOLDENS.present()
    different = {path for path in files.keys() | present.keys() if files.get(path) != present.get(path)}
    assert sorted(different) == [], "make golden"


def test_every_kind_has_a_case() -> None:
    kinds = {GOLDENS.input(name)["owner"]["kind"] for name in GOLDENS.names()}
    assert kinds == set(COMPOSERS)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"gatewayWithoutModule": "it runs without the module"}, id="without the module"),
        pytest.param({"gatewayAddress": "gateway.example:8443"}, id="another address"),
    ],
)
def test_every_kind_whose_status_the_gateway_decides_is_composed_when_the_gateway_changes(
    said: dict[str, Any],
) -> None:
    """Only the process that writes the gateway's configuration knows it: no object's change wakes them."""
    following = set()
    for name in GOLDENS.names():
        case = GOLDENS.input(name)
        there, then = compose(case), compose({**case, **said})
        if _written(there) != _written(then):
            following.add(case["owner"]["kind"])
    assert following <= {kind.name for kind in COMPOSERS.values() if kind.follows_gateway}
