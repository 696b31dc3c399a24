"""A change that concerns nobody wakes nobody."""

import pytest

from modelplane.api.meta import API_VERSION
from modelplane.controllers.manager import Manager
from modelplane.controllers.queue import WorkQueue
from modelplane.kube.client import Client


async def test_a_finalizer_of_a_cluster_wakes_nobody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each first replica on a cluster would reconcile it, and place what waits for room."""
    added: list[str] = []
    monkeypatch.setattr(WorkQueue, "add", lambda _queue, key: added.append(str(key)))
    clusters = Manager(client, proxy=None, dial=lambda address: address)._informers["InferenceCluster"]
    cluster = {"name": "east", "uid": "e", "resourceVersion": "1"}
    for metadata in (cluster, cluster | {"resourceVersion": "2", "finalizers": ["modelplane.ai/in-use"]}):
        clusters.remember(
            {"apiVersion": API_VERSION, "kind": "InferenceCluster", "metadata": metadata, "spec": {}}
        )
    assert added == ["InferenceCluster east"]
