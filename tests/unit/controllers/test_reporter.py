from typing import Any

import pytest

from modelplane.compose.composition import Composition
from modelplane.compose.conditions import false, true
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.reporter import Reporter
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


async def test_a_change_is_written_and_told_once(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    reporter = Reporter(client, informers)
    for _ in range(2):
        owner = informers["InferenceClass"].get("a") or _owner()
        await reporter.composed(owner, {}, COMPOSITION, "")
    assert [path for _, path, _, _ in plane.writes] == [STATUS, EVENTS]


async def test_a_status_that_cannot_be_written_is_no_event(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    plane.refuse("PATCH", STATUS, 409, "the object was changed")
    reporter = Reporter(client, informers)
    for _ in range(3):
        with pytest.raises(errors.Conflict):
            await reporter.composed(_owner(), {}, COMPOSITION, "")
    assert plane.wrote("POST") == []


async def test_an_event_that_cannot_be_written_is_given_up(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    plane.refuse("POST", EVENTS, 403, "no")
    await Reporter(client, informers).composed(_owner(), {}, COMPOSITION, "")
    assert plane.wrote("POST") == [EVENTS]


async def test_what_blocks_an_owner_leaves_everything_else_as_it_was(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "t"}
    owner = _owner() | {"status": {"address": "a", "conditions": [ready]}}
    await Reporter(client, informers).blocked(owner, "the cluster is away")
    [(_, _, _, body)] = plane.writes
    assert body["status"]["address"] == "a"
    kept, synced = body["status"]["conditions"]
    assert kept == ready
    assert (synced["type"], synced["status"], synced["message"]) == ("Synced", "False", "the cluster is away")


async def test_that_a_new_object_is_not_yet_what_it_is_to_be_is_no_event(
    plane: Any, client: Client, informers: dict[str, Informer]
) -> None:
    waiting = Composition(conditions=(false("Accepted", "Why", "because"),), ready=False)
    await Reporter(client, informers).composed(_owner(), {}, waiting, "")
    assert [path for _, path, _, _ in plane.writes] == [STATUS]


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
    await Reporter(client, informers).apply(owner, {"gpuPools": [pool]})
    assert plane.writes == []
    await Reporter(client, informers).apply(owner, {"gpuPools": [{**pool, "nodes": 2}]})
    assert plane.wrote("PATCH") == [STATUS.replace("classes", "clusters")]
