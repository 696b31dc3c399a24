from typing import Any

import pytest

from modelplane.compose.composition import Composition
from modelplane.compose.conditions import false, true
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer

STATUS = "/apis/modelplane.ai/v1alpha1/inferenceclasses/a/status"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
COMPOSITION = Composition(conditions=(true("Accepted", "Why", "because"),), ready=False)


@pytest.fixture
def informers(client: Client) -> dict[str, Informer]:
    return {name: Informer(client, resource_for(row.api_version, name)) for name, row in COMPOSERS.items()}


def _owner() -> dict[str, Any]:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass", "metadata": metadata}


def _waited() -> dict[str, Any]:
    """Return an owner that has waited for what it needs."""
    waited = {"type": "Accepted", "status": "False", "reason": "Waiting", "lastTransitionTime": "t"}
    return _owner() | {"status": {"conditions": [waited]}}


async def test_a_change_is_written_and_told_once(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    reporter = StatusWriter(client, informers)
    for _ in range(2):
        owner = informers["InferenceClass"].get("a") or _waited()
        await reporter.composed(owner, {}, COMPOSITION, None)
    assert [path for _, path, _, _ in plane.writes] == [STATUS, EVENTS]


async def test_a_status_that_cannot_be_written_is_no_event(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    plane.refuse("PATCH", STATUS, 409, "the object was changed")
    reporter = StatusWriter(client, informers)
    for _ in range(3):
        with pytest.raises(errors.Conflict):
            await reporter.composed(_waited(), {}, COMPOSITION, None)
    assert plane.wrote("POST") == []


async def test_an_event_that_cannot_be_written_is_given_up(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    plane.refuse("POST", EVENTS, 403, "no")
    await StatusWriter(client, informers).composed(_waited(), {}, COMPOSITION, None)
    assert plane.wrote("POST") == [EVENTS]


async def test_what_blocks_an_owner_leaves_everything_else_as_it_was(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "t"}
    owner = _owner() | {"status": {"address": "a", "conditions": [ready]}}
    await StatusWriter(client, informers).blocked(owner, "the cluster is away")
    [(_, _, _, body)] = plane.writes
    assert body["status"]["address"] == "a"
    kept, synced = body["status"]["conditions"]
    assert kept == ready
    assert (synced["type"], synced["status"], synced["message"]) == ("Synced", "False", "the cluster is away")


def _of_another_version() -> dict[str, Any]:
    """Return an owner whose status has a condition type that this version does not have."""
    retired = {"type": "Admitted", "status": "True", "reason": "Old", "lastTransitionTime": "t"}
    waited = _waited()
    waited["status"]["conditions"].append(retired)
    return waited


@pytest.mark.parametrize("is_blocked", [False, True], ids=["it is composed", "it is blocked"])
async def test_one_reconcile_takes_away_a_condition_type_of_another_version(
    plane: Any, client: Client, informers: dict[str, Informer], is_blocked: bool
) -> None:
    reporter, owner = StatusWriter(client, informers), _of_another_version()
    if is_blocked:
        await reporter.blocked(owner, "the cluster is away")
    else:
        await reporter.composed(owner, {}, COMPOSITION, None)
    body = plane.writes[0][3]
    assert "Admitted" not in {condition["type"] for condition in body["status"]["conditions"]}
    assert "Accepted" in {condition["type"] for condition in body["status"]["conditions"]}


@pytest.mark.parametrize("condition", [true, false])
async def test_the_first_conditions_of_an_object_are_no_event(
    plane: Any, client: Client, informers: dict[str, Informer], condition: Any
) -> None:
    first = Composition(conditions=(condition("Accepted", "Why", "because"),), ready=False)
    await StatusWriter(client, informers).composed(_owner(), {}, first, None)
    assert [path for _, path, _, _ in plane.writes] == [STATUS]


def _new_replica() -> dict[str, Any]:
    owner = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment", "name": "a", "uid": "d"}
    return {
        **_owner(),
        "kind": "ModelReplica",
        "metadata": {
            **_owner()["metadata"],
            "namespace": "n",
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"clusterName": "east"},
    }


async def test_the_first_status_of_a_replica_keeps_the_cluster_that_its_creation_recorded(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    """A process that ended in the middle may have written there, and nobody else knows."""
    for report in (StatusWriter.blocked, StatusWriter.deleting):
        plane.writes.clear()
        await report(StatusWriter(client, informers), _new_replica(), "the cluster is away")
        [(_, _, _, body)] = plane.writes
        assert body["status"]["clusters"] == ["east"]


async def test_what_a_server_fills_in_is_no_change(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    devices = ({"name": "gpu", "driver": "d"},)
    pool = {"name": "pool", "nodes": 1, "devices": devices}
    stored = {**pool, "accounting": "Nodes", "devices": [{**devices[0], "claim": "DRA", "count": 1}]}
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}},
        "nodePools": [{"name": "pool", "className": "c", "nodeCount": 1}],
    }
    owner = {**_owner(), "kind": "InferenceCluster", "spec": spec, "status": {"gpuPools": [stored]}}
    await StatusWriter(client, informers).apply(owner, {"gpuPools": [pool]})
    assert plane.writes == []
    await StatusWriter(client, informers).apply(owner, {"gpuPools": [{**pool, "nodes": 2}]})
    assert plane.wrote("PATCH") == [STATUS.replace("classes", "clusters")]
