"""What Crossplane's circuit breaker is charged for while a fleet grows, changes and rests.

Crossplane gives every composite a hundred tokens and one more a second, and takes two for each update of a
child and of the composite itself. Without a token it stops listening. test_charges.py holds these figures
against those of a real Crossplane.
"""

import sys
from collections import Counter

import pytest

from modelplane.compose.kinds import COMPOSERS
from support.crossplane.api import Change
from support.crossplane.fleet import Fleet
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, image, inference_cluster, model_deployment
from support.crossplane.objects import Kind, Object, condition
from support.crossplane.scenarios import prepared

_REQUEST_S = 0.01
"""How long a write takes at rest: up to ten times as long while many replicas start."""

_CROWDED_S = 0.1
"""How long each takes in a crowd."""

_STARTS_S = 3.5
"""How long the fastest engine takes to start; the slowest takes a tenth longer."""

_GANGS = "leaderworkersets.leaderworkerset.x-k8s.io"
_HELD_BY_A_BUCKET = 5
"""New replicas. Each takes thirteen: it is there, has children, is responsive, waits, and serves."""


class Watched:
    """A fleet, and what came of what was done to it since."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._events = len(fleet.history)
        self._calls = {kind: len(fleet.calls(kind)) for kind in COMPOSERS}
        self._began = fleet.clock.now

    @property
    def took(self) -> float:
        return self.fleet.clock.now - self._began

    @property
    def calls(self) -> Counter[str]:
        return Counter({kind: len(self.fleet.calls(kind)) - before for kind, before in self._calls.items()})

    @property
    def writes(self) -> Counter[str]:
        events = self.fleet.history[self._events :]
        return Counter(event.key.kind for event in events if event.change is not Change.DELETED)

    @property
    def opened(self) -> set[str]:
        """The kinds of the composites of which a breaker has opened."""
        return {key.kind for key, breaker in self.fleet.breakers().items() if breaker.openings}

    def __str__(self) -> str:
        costliest = sorted(self.fleet.breakers().items(), key=lambda each: each[1].least)[:3]
        spent = [
            f"{key}: {breaker.charged} tokens, {breaker.least:.0f} left, {breaker.per_update:.1f} an update"
            for key, breaker in costliest
        ]
        made = ", ".join(f"{number} {kind}" for kind, number in self.calls.items() if number)
        written = ", ".join(f"{number} {kind}" for kind, number in self.writes.most_common())
        return f"{self.took:.1f} s; calls: {made}; writes: {written}; {'; '.join(spent)}"


def with_clusters(number: int, *, nodes: int = 1, kinds: tuple[str, ...] = ()) -> Fleet:
    """Return a fleet of clusters that have been ready for a while."""
    fleet = prepared(by_its_own_clock())
    fleet.api.request_s = _REQUEST_S
    names = [f"c{each:03}" for each in range(number)]
    for each, name in enumerate(names):
        fleet.cluster(name, kinds=kinds).starts_s = _STARTS_S * (1 + each % 10 / 100)
        fleet.apply(inference_cluster(name, nodes=nodes))
    fleet.run_until_ready("InferenceCluster", *names)
    fleet.run_for(120)
    return fleet


def tell(what: str) -> None:
    """Print what something took, for those who run pytest with ``-rP``."""
    sys.stdout.write(f"{what}\n")


def counted(fleet: Fleet) -> dict[str, int]:
    counts: dict[str, int] = fleet.get("ModelDeployment", DEPLOYMENT).get("status", {}).get("replicas", {})
    return counts


# Of more replicas than a bucket holds the breaker opens. Such a deployment goes by the time to live of its
# answers, which is no slower.
@pytest.mark.parametrize(
    ("replicas", "within"), [(5, 6), (10, 6), (30, 12), pytest.param(100, 60, marks=pytest.mark.scale)]
)
def test_new_replicas(replicas: int, within: float) -> None:
    watched = Watched(with_clusters(replicas))
    fleet = watched.fleet
    if replicas == 100:
        fleet.api.request_s, fleet.api.load = _CROWDED_S, lambda: 0
    before = fleet.api.requests
    fleet.apply(model_deployment(replicas=replicas))
    fleet.run_until(
        lambda: bool(condition(fleet.get("ModelDeployment", DEPLOYMENT), "ReplicasScheduled")), within=2
    )
    calls = watched.calls["ModelDeployment"]
    assert calls == 2, "the first answer, which takes two calls, is the first status"
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=within)
    tell(f"{replicas} replicas: {watched}")
    written = fleet.api.requests - before
    assert written <= 180 * replicas, "requests for each replica, those of its cluster included"
    fleet.run_for(30)
    assert counted(fleet) == {"total": replicas, "ready": replicas, "updated": replicas}
    assert watched.opened <= (set() if replicas <= _HELD_BY_A_BUCKET else {"ModelDeployment"})


def test_registering_a_cluster() -> None:
    watched = Watched(with_clusters(1))
    fleet = watched.fleet
    fleet.simulation.shuffle(seed=7, longest=1.0)
    fleet.cluster("another", kinds=(_GANGS,))
    fleet.apply(inference_cluster("another"))
    fleet.run_until_ready("InferenceCluster", "another", within=10)
    tell(f"registration: {watched}")
    key = fleet.key("InferenceCluster", "another")
    # Crossplane repeats what it has read, so events that arrive late can bring back the first for a moment.
    said = {own_reasons(event.new.object) for event in fleet.history if event.key == key}
    assert len(said - {()}) == 2, "that it is being looked at, and that it is ready"
    assert watched.opened == set()


def own_reasons(item: Object) -> tuple[str, ...]:
    """Return the reasons of the conditions that the function gives an object."""
    found = item.get("status", {}).get("conditions", ())
    return tuple(each["reason"] for each in found if each["type"] not in ("Ready", "Synced", "Responsive"))


def test_a_gang() -> None:
    watched = Watched(with_clusters(1, nodes=2, kinds=(_GANGS,)))
    manifest = model_deployment()
    [only] = manifest["spec"]["engines"][0]["members"]
    manifest["spec"]["engines"][0]["members"] = [{**only, "role": role} for role in ("Leader", "Worker")]
    watched.fleet.apply(manifest)
    watched.fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=6)
    tell(f"gang: {watched}")
    assert watched.opened == set()


@pytest.mark.parametrize(("replicas", "within"), [(3, 60), pytest.param(20, 500, marks=pytest.mark.scale)])
def test_an_edit_reaches_one_serving_replica_at_a_time(replicas: int, within: float) -> None:
    fleet = with_clusters(replicas)
    fleet.apply(model_deployment(replicas=replicas))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(600)
    fleet.composites["ModelDeployment"].breakers.clear()
    watched = Watched(fleet)
    engines = image(fleet.get("ModelDeployment", DEPLOYMENT), "vllm/vllm-openai:v0.24.0")
    fleet.edit("ModelDeployment", DEPLOYMENT, engines=engines)
    most_down = 0

    def done() -> bool:
        nonlocal most_down
        most_down = max(most_down, down(fleet))
        is_ready = fleet.is_true("ModelDeployment", DEPLOYMENT)
        return is_ready and counted(fleet)["updated"] == replicas and not down(fleet)

    fleet.run_until(done, within)
    tell(f"edit of {replicas}: {watched}")
    assert most_down == 1
    assert watched.opened == set()


def test_an_edit_waits_for_a_cluster_that_takes_its_time_to_begin_with_the_last_one() -> None:
    fleet = with_clusters(3)
    for cluster in fleet.clusters.values():
        cluster.notices_s = 40.0
    fleet.apply(model_deployment(replicas=3))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(60)
    endpoints = fleet.announced()
    engines = image(fleet.get("ModelDeployment", DEPLOYMENT), "vllm/vllm-openai:v0.24.0")
    fleet.edit("ModelDeployment", DEPLOYMENT, engines=engines)
    fleet.run_for(30)
    assert counted(fleet) == {"total": 3, "ready": 3, "updated": 0}, "its old copy serves on"
    assert fleet.announced() == endpoints
    most_down = 0

    def done() -> bool:
        nonlocal most_down
        most_down = max(most_down, down(fleet))
        return fleet.is_true("ModelDeployment", DEPLOYMENT) and counted(fleet)["updated"] == 3

    fleet.run_until(done, 300)
    assert most_down == 1


def down(fleet: Fleet) -> int:
    """Return how many engines have no copy that serves."""
    engines = [
        engine for cluster in fleet.clusters.values() for engine in cluster.api.of(Kind("apps", "Deployment"))
    ]
    return sum(not engine.get("status", {}).get("availableReplicas") for engine in engines)


@pytest.fixture(scope="module")
def resting() -> Fleet:
    fleet = with_clusters(40)
    fleet.apply(model_deployment(replicas=10))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(1200)
    return fleet


class TestAtRest:
    def test_it_is_looked_at_every_few_minutes_and_nothing_is_written(self, resting: Fleet) -> None:
        watched = Watched(resting)
        resting.run_for(600)
        tell(f"at rest, ten minutes: {watched}")
        ours = ("InferenceCluster", "ModelDeployment", "ModelReplica", "ModelEndpoint")
        assert sum(watched.calls[kind] for kind in ours) < 2 * 10 * (40 / 4 + 10 / 1.6 + 10 / 4 + 1)
        assert watched.writes == {}

    def test_not_all_at_once(self, resting: Fleet) -> None:
        began = len(resting.calls("InferenceCluster"))
        resting.run_for(60)
        looked_at = {call.of for call in resting.calls("InferenceCluster")[began:]}
        assert 0 < len(looked_at) < 20

    def test_composing_all_anew_writes_nothing(self, resting: Fleet) -> None:
        watched = Watched(resting)
        resting.look_again()
        assert sum(watched.calls.values()) > 100
        assert watched.writes == {}

    def test_what_fails_is_looked_at_within_a_minute(self, resting: Fleet) -> None:
        replica = resting.named("ModelReplica")[0]
        cluster = resting.clusters[resting.get("ModelReplica", replica)["spec"]["clusterName"]]
        cluster.reachable = False
        resting.run_for(700)
        watched = Watched(resting)
        resting.run_for(120)
        looks = resting.calls("ModelReplica")[-watched.calls["ModelReplica"] :]
        assert sum(call.of.name == replica.partition("/")[2] for call in looks) >= 2 * 2
