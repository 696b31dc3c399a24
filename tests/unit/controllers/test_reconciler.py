import asyncio
from typing import Any

from modelplane.api.meta import API_VERSION
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.clusters import Clusters
from modelplane.controllers.front_door import Door
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.named import NamedObjects
from modelplane.controllers.reconciler import Reconciler
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import resource_for

CLASS = OwnerKey("InferenceClass", "", "l4")
CACHE = OwnerKey("ModelCache", "n", "weights")


def _object(key: OwnerKey, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    own: dict[str, Any] = {"name": key.name, "uid": "u", "resourceVersion": "5", "generation": 1}
    if key.namespace:
        own["namespace"] = key.namespace
    return {"apiVersion": API_VERSION, "kind": key.kind, "metadata": own | metadata, "spec": spec}


class Bench:
    """A reconciler with what it remembers."""

    def __init__(self, client: Client, clusters: Clusters) -> None:
        self.informers = {name: Informer(client, resource_for(API_VERSION, name)) for name in COMPOSERS}
        self.interests = Interests()
        self.named = NamedObjects(client, lambda _item: None, self.interests.anyone)
        self.reconciler = Reconciler(
            client, self.informers, clusters, self.named, self.interests, lambda: Door("front:80")
        )


async def test_who_uses_an_object_matters_only_once_it_is_to_go(client: Client, clusters: Clusters) -> None:
    bench = Bench(client, clusters)
    class_ = _object(CLASS, {"devices": [{"name": "gpu", "driver": "d"}]})
    bench.informers["InferenceClass"].remember(class_)
    await bench.reconciler.reconcile(CLASS)
    assert bench.interests.of(CLASS) == ()
    going = _object(CLASS, class_["spec"], resourceVersion="9999", deletionTimestamp="2026-01-01T00:00:00Z")
    bench.informers["InferenceClass"].remember(going)
    await bench.reconciler.reconcile(CLASS)
    assert [(each.kind, each.wakes) for each in bench.interests.of(CLASS)] == [("InferenceCluster", True)]


async def test_an_owner_waits_for_the_secret_that_it_names(
    plane: Any, client: Client, clusters: Clusters
) -> None:
    bench = Bench(client, clusters)
    source = {"repo": "a/b", "sizeGiB": 1, "authSecret": {"name": "token"}}
    bench.informers["ModelCache"].remember(_object(CACHE, {"source": "HuggingFace", "huggingFace": source}))
    await bench.reconciler.reconcile(CACHE)
    assert plane.writes == [], "nothing is said before the Secret has been looked at"
    await asyncio.sleep(0.05)
    await bench.reconciler.reconcile(CACHE)
    assert f"{resource_for(API_VERSION, 'ModelCache').path('n', 'weights')}/status" in plane.wrote("PATCH")
    await bench.named.close()
