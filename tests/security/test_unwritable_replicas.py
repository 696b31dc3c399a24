"""Replicas that can never be written on their cluster, such as those of a namespace that is another's there.

A team creates a namespace of any name on the control plane, and its deployment is placed. Its replicas must
not hold devices against other teams for ever.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.deployment.deployment_facts import DeploymentFacts, DeploymentRequest
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded
from support.replicas import composed, engine, replica

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
LONG_AGO, JUST_NOW = ((NOW - timedelta(minutes=age)).strftime("%Y-%m-%dT%H:%M:%SZ") for age in (31, 29))


def request(
    namespace: str, *others: Object, now: datetime | None = NOW, own: Object | None = None
) -> DeploymentRequest:
    """Return the request of a team's deployment on a fleet of one node, beside replicas of other teams."""
    wanted = DEPLOYMENT.replace("namespace: ml-team", f"namespace: {namespace}")
    files = assemble(loaded(joined(CLASS, cluster("west", nodes=1), wanted)).objects)
    owner = decode_as(ModelDeployment, {**files.deployments[0], "metadata": _metadata(namespace)})
    found = {each.key: files.store.find(each) for each in model_deployment.requirements(owner)}
    observed = {"replica-west-0": own} if own else {}
    return Request(owner, observed, found | {"replicas": others}, DeploymentFacts(), now)


def _metadata(namespace: str) -> Object:
    return {"name": "m", "namespace": namespace, "uid": f"uid-of-{namespace}", "generation": 1}


def placed(asked: DeploymentRequest) -> list[Object]:
    said = model_deployment.compose(asked)
    assert isinstance(said, Composition)
    children = [each for each in said.children if isinstance(each, Desired)]
    return [dict(each.manifest) for each in children if each.manifest["kind"] == "ModelReplica"]


def condition(type_: str, status: str, reason: str) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": LONG_AGO}


def existing(
    accepted: str, ready: str = "WaitingForModel", *, synced: str = "True", created: str = LONG_AGO
) -> Object:
    """Return the replica of another team that holds the one node, with conditions."""
    (made,) = placed(request("squatters"))
    metadata = {
        **made["metadata"],
        "uid": "another",
        "creationTimestamp": created,
        "ownerReferences": [
            {"apiVersion": "x", "kind": "ModelDeployment", "name": "m", "uid": "u", "controller": True}
        ],
    }
    conditions = [
        condition("ModelAccepted", "False", accepted),
        condition("ModelReady", "False", ready),
        condition("Synced", synced, "ReconcileSuccess" if synced == "True" else "ReconcileError"),
    ]
    return {**made, "metadata": metadata, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(existing("NamespaceNotLabeled"), id="the namespace is another's"),
        pytest.param(
            existing("NamespaceNotLabeled", created=JUST_NOW), id="the namespace is another's from the start"
        ),
        pytest.param(existing("NamespaceTerminating"), id="the namespace is being deleted"),
        pytest.param(existing("Deploying", synced="False"), id="each write has failed for half an hour"),
    ],
)
def test_a_replica_of_which_nothing_can_be_written_takes_no_devices_from_others(held: Object) -> None:
    assert len(placed(request("ml-team", held))) == 1


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(existing("Accepted", "ModelStarting"), id="it is there and starts"),
        pytest.param(existing("NamespaceNotLabeled", "ModelStarting"), id="its engine was there before"),
        pytest.param(existing("NamespaceNotLabeled", "Serving"), id="it serves"),
        pytest.param(existing("Deploying"), id="it is being written"),
        pytest.param(
            existing("Deploying", synced="False", created=JUST_NOW), id="writes fail since a moment"
        ),
        pytest.param(
            existing("Deploying", "ModelStarting", synced="False"), id="one of two engines is there"
        ),
        pytest.param(existing("WaitingForCluster", synced="False"), id="its namespace could not be read"),
        pytest.param(existing("WaitingForCache"), id="its weights are being downloaded"),
        pytest.param(existing("ClusterUnreachable", synced="False"), id="its cluster does not answer"),
        pytest.param(existing("PodNotAccepted"), id="its author has to change it"),
    ],
)
def test_a_replica_that_may_have_devices_keeps_them(held: Object) -> None:
    assert placed(request("ml-team", held)) == []


def test_without_a_clock_only_a_namespace_that_is_not_for_it_counts() -> None:
    assert placed(request("ml-team", existing("Deploying", synced="False"), now=None)) == []
    assert len(placed(request("ml-team", existing("NamespaceNotLabeled"), now=None))) == 1


def test_the_deployment_itself_keeps_such_a_replica_and_places_no_other_on_its_devices() -> None:
    held = existing("NamespaceNotLabeled")
    held["metadata"]["ownerReferences"][0]["uid"] = "uid-of-squatters"
    kept = placed(request("squatters", held, own=held))
    assert [each["metadata"]["name"] for each in kept] == [held["metadata"]["name"]]


def namespace(**metadata: Any) -> tuple[Object, ...]:
    labeled = {"labels": {"modelplane.ai/managed-by": "modelplane"}}
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team", **labeled, **metadata}},
    )


def conditions(said: Composition) -> dict[str, tuple[str, str]]:
    return {each.type: (each.reason, each.message) for each in said.conditions}


def test_a_replica_whose_namespace_is_being_deleted_reports_that_and_keeps_its_objects() -> None:
    deleted = namespace(deletionTimestamp=LONG_AGO)
    said = composed(replica(), None, **{"namespace-east": deleted})
    message = (
        'Namespace "ml-team" on cluster "east" is being deleted, so nothing can be written to it until the '
        "deletion completes: to see what blocks the deletion, run `kubectl describe namespace ml-team`"
    )
    assert conditions(said)["ModelAccepted"] == ("NamespaceTerminating", message)
    assert conditions(said)["ModelReady"] == ("WaitingForModel", message)
    assert said.children == ()


def test_a_replica_with_one_of_two_engines_on_its_cluster_does_not_pass_for_one_with_none() -> None:
    two = replica(engine("one"), engine("two"))
    written = {each.key: each.manifest for each in composed(two).children if isinstance(each, Desired)}
    there = {"model-serving-one": written["model-serving-one"]}
    for required in ({}, {"namespace-east": namespace(deletionTimestamp=LONG_AGO)}):
        assert conditions(composed(two, there, **required))["ModelReady"][0] == "ModelStarting"
