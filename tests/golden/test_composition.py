"""What each kind composes, as files: ``input.yaml`` goes in, ``expected.yaml`` must come out.

``make golden`` writes the expected files anew; review the difference before committing it.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from modelplane.api.inference_gateway import Backend
from modelplane.api.schema.decode import convert, decode_as
from modelplane.compose.composition import (
    Blocked,
    Composition,
    Credential,
    Desired,
    Request,
    Silence,
    Unknown,
)
from modelplane.compose.kinds import COMPOSERS
from modelplane.deciders.autoscaling import state as autoscaling
from modelplane.deciders.canary.state import Observed
from modelplane.deciders.cluster_health import Standing, State, Watched
from modelplane.gateway.mutual_tls import Link
from modelplane.gateway.tokens import read as read_keys
from modelplane.install import crossplane_gateway
from modelplane.install.installation_options import Options

FOLDER = Path(__file__).parent / "composition"
CASES = sorted(FOLDER.glob("*/*/input.yaml"))
UPDATE = "MODELPLANE_UPDATE_GOLDEN"
FIELDS = {
    *("reason", "owner", "observed", "required", "proxy", "silence", "credential", "keyProblem"),
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
    request = Request(
        decode_as(kind.type, owner),
        case.get("observed", {}),
        required,
        case.get("gatewayAddress", ""),
        Backend(case.get("proxy", Backend.ENVOY)),
        gateway_problem=case.get("gatewayProblem", ""),
        gateway_tls_problem=case.get("gatewayTlsProblem", ""),
        gateway_without_module=case.get("gatewayWithoutModule", ""),
        gateway_asks_for_keys=case.get("gatewayAsksForKeys", False),
        key_problem=case.get("keyProblem"),
        gateway_pods=crossplane_gateway.children(Options()) if case.get("gatewayPods") else {},
        gateway_keys=read_keys(case["gatewayKeys"]) if "gatewayKeys" in case else None,
        gateway_has_tls=case.get("gatewayHasTls"),
        envoy_is_needed_by=case.get("envoyIsNeededBy", ""),
        knows_keys_in_force=case.get("knowsKeysInForce", True),
        now=datetime.fromtimestamp(case["now"], UTC) if "now" in case else None,
        observes_capacity="now" in case,
        silence=Silence(**case["silence"]) if "silence" in case else None,
        credential=Credential(**case["credential"]) if "credential" in case else None,
        autoscaling=convert(case["autoscaling"], autoscaling.State) if "autoscaling" in case else None,
        canary=convert(case["canary"], Observed) if "canary" in case else None,
        mutual_tls=_link(case["mutualTLS"]) if "mutualTLS" in case else None,
        gateway_answer=case.get("gatewayAnswer"),
        watched=_watched(case["watched"]) if "watched" in case else None,
    )
    for requirement in kind.requirements(request.owner):
        required.setdefault(requirement.key, ())
    return kind.compose(request)


def _watched(watched: dict[str, Any]) -> Watched:
    standing = watched.get("standing")
    told = Standing(State(standing["state"]), standing["cause"]) if standing else None
    return Watched(told, watched.get("lost", {}), watched.get("paused", ""))


def _link(link: dict[str, Any]) -> Link | Unknown:
    return Unknown(link["unknown"]) if "unknown" in link else convert(link, Link)


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


@pytest.mark.parametrize("path", CASES, ids=lambda path: str(path.parent.relative_to(FOLDER)))
def test_composition_matches_its_golden_file(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    written = _written(compose(case))
    expected = path.parent / "expected.yaml"
    if os.environ.get(UPDATE):
        expected.write_text(yaml.safe_dump(written, sort_keys=True, allow_unicode=True, width=110))
    assert written == yaml.safe_load(expected.read_text()), case["reason"]


def test_every_file_belongs_to_a_case() -> None:
    known = {path.parent / name for path in CASES for name in ("input.yaml", "expected.yaml")}
    assert {path for path in FOLDER.rglob("*") if path.is_file()} == known


def test_every_kind_has_a_case() -> None:
    kinds = {yaml.safe_load(path.read_text())["owner"]["kind"] for path in CASES}
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
    for path in CASES:
        case = yaml.safe_load(path.read_text())
        there, then = compose(case), compose({**case, **said})
        if _written(there) != _written(then):
            following.add(case["owner"]["kind"])
    assert following <= {kind.name for kind in COMPOSERS.values() if kind.follows_gateway}
