"""The stand-in writes and charges what a real Crossplane 2.3.4 with provider-kubernetes 1.3.1 does.

Its figures were measured there with the function of release 0.8.0, for a deployment whose engines serve at
once. Each range may be missed by five percent.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api import labels
from modelplane.crossplane.function import pace
from support.crossplane.api import Change, Event
from support.crossplane.composite import Run
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, inference_cluster, model_deployment
from support.crossplane.objects import Object
from support.crossplane.protobuf import plain
from support.crossplane.scenarios import prepared

_REQUEST_S = 0.01
_MISSED = 0.05
_CLUSTER = "c000"


def as_of_0_8_0(run: Run) -> Run:
    """Return a function that answers as that of 0.8.0: it names an endpoint only when its replica serves."""

    def earlier(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        response = run(request)
        resources = response.desired.resources
        if "endpoint" in resources:
            annotations = plain(resources["endpoint"].resource)["metadata"].get("annotations", {})
            if annotations.get(labels.DRAINING) == labels.NOT_SERVING:
                del resources["endpoint"]
        return response

    return earlier


class Placed:
    """Replicas that became ready on one cluster, and what was written for that."""

    def __init__(self, replicas: int) -> None:
        self.fleet = prepared(by_its_own_clock())
        for composite in self.fleet.composites.values():
            composite.run = as_of_0_8_0(composite.run)
        self.fleet.api.request_s = _REQUEST_S
        self.fleet.cluster(_CLUSTER)
        self.fleet.apply(inference_cluster(_CLUSTER, nodes=replicas))
        self.fleet.run_until_ready("InferenceCluster", _CLUSTER)
        self.fleet.run_for(120)
        before = len(self.fleet.history)
        self._worth = self.fleet.breaker("InferenceCluster", _CLUSTER).worth
        self.fleet.apply(model_deployment(replicas=replicas))
        self.fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
        self.fleet.run_for(3)
        self.events = self.fleet.history[before:]

    def updates(self, kind: str) -> list[int]:
        """Return how often each object of a kind was updated."""
        made = [event.key for event in self.events if event.key.kind == kind and event.change is Change.ADDED]
        counts = Counter(event.key for event in self.events if event.change is Change.MODIFIED)
        return [counts[key] for key in made]

    @property
    def of_deployment(self) -> int:
        return self.fleet.breaker("ModelDeployment", DEPLOYMENT).worth

    @property
    def of_replicas(self) -> list[int]:
        """The tokens of each replica's bucket, but of the one that creates the namespace on the cluster."""
        return sorted(self.fleet.breaker("ModelReplica", each).worth for each in self._replicas)[:-1]

    @property
    def of_cluster(self) -> int:
        return self.fleet.breaker("InferenceCluster", _CLUSTER).worth - self._worth

    @property
    def _replicas(self) -> list[str]:
        return self.fleet.named("ModelReplica")


def is_within(number: float, least: float, most: float) -> bool:
    return least * (1 - _MISSED) <= number <= most * (1 + _MISSED)


@pytest.fixture(scope="module")
def placed() -> Mapping[int, Placed]:
    with pytest.MonkeyPatch.context() as patched:
        # It began with ten replicas, and looked after two seconds.
        patched.setattr(pace, "_FIRST_WAVE", 10)
        patched.setattr(pace, "_starting", lambda _owner: 2)
        return {replicas: Placed(replicas) for replicas in (1, 5, 10)}


@pytest.mark.parametrize(("replicas", "least", "most"), [(1, 34, 44), (5, 98, 98), (10, 159, 191)])
def test_tokens_of_a_deployment(placed: Mapping[int, Placed], replicas: int, least: int, most: int) -> None:
    assert is_within(placed[replicas].of_deployment, least, most), placed[replicas].of_deployment


def test_tokens_of_a_replica(placed: Mapping[int, Placed]) -> None:
    tokens = placed[10].of_replicas
    assert all(is_within(each, 67, 70) for each in tokens), tokens


def test_tokens_of_a_cluster_that_ten_replicas_begin_to_use(placed: Mapping[int, Placed]) -> None:
    assert is_within(placed[10].of_cluster, 25, 29), placed[10].of_cluster


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("ModelReplica", 7, 7), ("ModelEndpoint", 6, 8)],
)
def test_updates_of_each_child(placed: Mapping[int, Placed], kind: str, least: int, most: int) -> None:
    updates = placed[10].updates(kind)
    assert len(updates) == 10
    assert all(least <= each <= most for each in updates), updates


def test_updates_of_a_deployment(placed: Mapping[int, Placed]) -> None:
    # The one that a person applies gets a finalizer, a revision and a label besides.
    assert all(9 <= each.updates("ModelDeployment")[0] <= 13 for each in placed.values())


def test_updates_of_objects_on_average(placed: Mapping[int, Placed]) -> None:
    updates = placed[10].updates("Object")
    assert is_within(sum(updates) / len(updates), 3.4, 3.4), updates


def test_the_breaker_opens_for_ten_new_replicas_and_not_for_five(placed: Mapping[int, Placed]) -> None:
    openings = {
        replicas: each.fleet.breaker("ModelDeployment", DEPLOYMENT).openings
        for replicas, each in placed.items()
    }
    assert openings == {1: 0, 5: 0, 10: 1}


def test_the_seven_updates_of_a_replica(placed: Mapping[int, Placed]) -> None:
    [key] = [each.key for each in placed[1].events if each.key.kind == "ModelReplica" and not each.old]
    mine = [each for each in placed[1].events if each.key == key and each.old]
    assert [sorted(_changed(each)) for each in mine] == [
        ["resourceRefs"],
        ["Responsive"],
        ["ModelAccepted", "ModelReady", "Ready", "RoutingReady", "Synced"],
        ["Responsive"],
        ["resourceRefs"],
        ["ModelAccepted", "ModelReady", "Ready", "RoutingReady", "Synced"],
        ["Responsive"],
    ]


def _changed(event: Event) -> set[str]:
    """Return the conditions that an update changes, and whether it changes the list of children."""
    assert event.old is not None
    old, new = event.old.object, event.new.object
    before, after = _conditions(old), _conditions(new)
    types = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
    return types | ({"resourceRefs"} if old["spec"] != new["spec"] else set())


def _conditions(item: Object) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in item.get("status", {}).get("conditions", ())}
