"""Manifests over the objects of a fleet, as applying them would leave it."""

from typing import Any

import pytest

from modelplane.offline.plan import placements
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded

UID = "6f3c9a52-0d5f-4d0a-9a53-2c1f0a9b7e11"
QUOTA = """\
apiVersion: modelplane.ai/v1alpha1
kind: DeviceQuota
metadata: {name: team}
spec:
  namespaces: [ml-team]
  classes: [{className: l4, nominalQuota: 1}]
  priorityClassNames: [serving]
"""
SERVING = DEPLOYMENT.replace("  replicas: 1", "  replicas: 1\n  priorityClassName: serving")


def stored(manifest: str, **fields: Any) -> dict[str, Any]:
    """Return an object as a server has it."""
    [item] = loaded(manifest).objects
    metadata = {**item["metadata"], "uid": f"{UID}-{item['metadata']['name']}", "resourceVersion": "7"}
    return {**item, **fields, "metadata": metadata}


def diagnosis(there: list[Any], *written: str) -> str:
    """Return what a plan of manifests on a live fleet says of its deployment."""
    fleet = assemble([*loaded(CLASS).objects, *there], loaded(joined(*written)).objects, live=True)
    [told] = placements.plan(fleet, fleet.deployments).deployments
    return told.diagnosis


def test_a_cluster_that_is_given_as_it_is_stored_keeps_its_state() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "R", "message": "it is on fire"}]
    conditions[0]["lastTransitionTime"] = "2026-06-01T00:00:00Z"
    west = stored(cluster("west"), status={"conditions": conditions})
    west["spec"] = {**west["spec"], "drain": {"maxMoving": 2}}
    assert "it is on fire" in diagnosis([west], cluster("west"), DEPLOYMENT)
    assert diagnosis([west], cluster("west", nodes=3), DEPLOYMENT) == ""


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param("nominalQuota: 1", id="as it is"),
        pytest.param("nominalQuota: 2", id="edited"),
    ],
)
def test_a_quota_keeps_the_values_of_its_priority_classes(edit: str) -> None:
    values = [{"name": "serving", "value": 1000, "preempts": True}]
    quota = stored(QUOTA, status={"priorityClasses": values})
    written = QUOTA.replace("nominalQuota: 1", edit)
    assert diagnosis([quota, stored(cluster("west"))], cluster("west"), written, SERVING) == ""


def test_a_priority_class_that_is_given_too_is_known() -> None:
    priority_class = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: serving}
value: 5
"""
    before = QUOTA.replace("[serving]", "[other]")
    quota = stored(before, status={"priorityClasses": [{"name": "other", "value": 1, "preempts": True}]})
    assert diagnosis([quota], cluster("west"), QUOTA, priority_class, SERVING) == ""


def test_labels_and_annotations_that_others_wrote_stay() -> None:
    there = stored(DEPLOYMENT)
    there["metadata"] |= {"annotations": {"modelplane.ai/promoted": "abc"}, "labels": {"a": "1", "b": "1"}}
    edited = DEPLOYMENT.replace(
        "  name: qwen\n", "  name: qwen\n  labels: {b: '2'}\n  annotations: {c: d}\n", 1
    )
    [deployment] = assemble([there], loaded(edited).objects, live=True).deployments
    assert deployment["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert deployment["metadata"]["annotations"] == {"modelplane.ai/promoted": "abc", "c": "d"}
