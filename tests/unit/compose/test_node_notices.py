"""Signs of nodes that are about to be reclaimed."""

from typing import Any

import pytest

from modelplane.compose.cluster.capacity_facts import facts_of
from modelplane.compose.cluster.eviction_signs import SIGNS, NodeNotice, Where, notice


def node(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "n1", "labels": {"modelplane.ai/pool": "a"}, **parts.get("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": parts.get("spec", {}),
        "status": parts.get("status", {}),
    }


def shown(where: Where, key: str, status: str, says: str) -> dict[str, Any]:
    """Return a node with a sign."""
    if where is Where.ANNOTATION:
        return node(metadata={"annotations": {key: ""}})
    if where is Where.TAINT:
        return node(spec={"taints": [{"key": key, "effect": "NoSchedule"}]})
    condition = {"type": key, "status": status, "message": f"{says} at noon"}
    return node(status={"conditions": [condition]})


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"{sign.where}-{sign.key}")
def test_each_sign_is_a_notice(sign) -> None:
    item = shown(sign.where, sign.key, sign.status, sign.says)
    assert notice(item) == NodeNotice(f"{sign.where} {sign.key}", sign.spot_s, sign.others_s)
    assert facts_of([item])[0].notice == notice(item)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(node(), id="nothing"),
        pytest.param(
            node(spec={"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}), id="other taint"
        ),
        pytest.param(
            shown(Where.CONDITION, "PreemptScheduled", "False", ""), id="condition that does not hold"
        ),
        pytest.param(
            shown(Where.CONDITION, "VMEventScheduled", "True", "Freeze Scheduled"), id="another event"
        ),
        pytest.param(shown(Where.CONDITION, "Ready", "False", "kubelet stopped"), id="not ready"),
        pytest.param(node(metadata={"annotations": ["x"]}, spec={"taints": "x"}, status="x"), id="malformed"),
    ],
)
def test_nothing_else_is_one(item: dict[str, Any]) -> None:
    assert notice(item) is None


def test_an_annotation_may_have_the_time_and_no_more() -> None:
    at = node(metadata={"annotations": {"modelplane.ai/eviction-notice": "2026-01-01T00:00:00Z"}})
    found = notice(at)
    assert found is not None
    assert found.deadline == "2026-01-01T00:00:00Z"
    long = notice(node(metadata={"annotations": {"modelplane.ai/eviction-notice": "9" * 1000}}))
    assert long is not None
    assert len(long.deadline) == 64
