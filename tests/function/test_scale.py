"""A hundred clusters, ten replicas: how long it takes, and what it costs.

Crossplane gives every composite a hundred tokens and one more a second. An update costs two, anything else
one. With no token left it drops all events for five minutes, but for one in thirty seconds. Five replicas
take what a bucket holds; of ten, the deployment goes by the time to live of its answers.
"""

import pytest

from modelplane.compose.kinds import COMPOSERS
from support.crossplane.breaker import Breaker
from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, model_deployment
from support.crossplane.objects import Key
from support.crossplane.scenarios import prepared, with_clusters

CLUSTERS = 100
_STARTS_S = 6.0
_CALLS_A_MINUTE = 30
_MINUTES = 8


class Placed:
    """A deployment that was made and became ready, and what that took."""

    def __init__(self, fleet: Fleet, clusters: int, replicas: int, starts_s: float = 0.0) -> None:
        self.fleet = prepared(fleet)
        with_clusters(self.fleet, *(f"c{number:03}" for number in range(clusters)), nodes=1)
        for cluster in self.fleet.clusters.values():
            cluster.starts_s = starts_s
        for composite in self.fleet.composites.values():
            composite.real_time = True
        before = {kind: len(self.fleet.calls(kind)) for kind in COMPOSERS}
        self.fleet.apply(model_deployment(replicas=replicas))
        self.took = self.fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
        self.calls = {kind: self.fleet.calls(kind)[before[kind] :] for kind in COMPOSERS}

    @property
    def costs(self) -> dict[Key, Breaker]:
        """The breakers of all composites that have children, the costliest first."""
        used = {key: breaker for key, breaker in self.fleet.breakers().items() if breaker.events}
        return dict(sorted(used.items(), key=lambda each: -each[1].events))

    def __str__(self) -> str:
        spent = [
            f"{len(made)} calls for {kind}s took {sum(call.seconds for call in made):.2f} s"
            for kind, made in self.calls.items()
            if made
        ]
        most = [
            f"{breaker.events} events of children of {key}, {breaker.charged} of 100 tokens, "
            f"{breaker.dropped} events dropped"
            for key, breaker in list(self.costs.items())[:3]
        ]
        return f"ready after {self.took:.2f} s; {'; '.join((*spent, *most))}"


@pytest.fixture(scope="module")
def ten(function: FunctionProcess) -> Placed:
    return Placed(Fleet(function.run), CLUSTERS, replicas=10)


def test_ten_replicas_over_a_hundred_clusters_are_ready_in_five_seconds(ten: Placed) -> None:
    assert ten.took <= 5, str(ten)


@pytest.mark.parametrize(
    ("replicas", "opened"),
    [
        pytest.param(5, [], id="five"),
        pytest.param(10, [f"ModelDeployment {DEPLOYMENT}"], id="ten, as on a real Crossplane"),
    ],
)
def test_of_five_new_replicas_no_breaker_opens(replicas: int, opened: list[str]) -> None:
    placed = Placed(by_its_own_clock(), CLUSTERS, replicas=replicas, starts_s=_STARTS_S)
    placed.fleet.run_for(30)
    worth = placed.fleet.breaker("ModelDeployment", DEPLOYMENT).worth
    assert 13 * replicas <= worth <= 13 * replicas + 30, str(placed)
    assert [str(key) for key, breaker in placed.costs.items() if breaker.openings] == opened, str(placed)


def test_a_young_deployment_is_seldom_asked_about() -> None:
    fleet = Placed(by_its_own_clock(), 10, replicas=10).fleet
    ours = ("ModelDeployment", "ModelReplica", "ModelEndpoint")
    before = sum(len(fleet.calls(kind)) for kind in ours)
    fleet.run_for(60 * _MINUTES)
    assert sum(len(fleet.calls(kind)) for kind in ours) - before <= _CALLS_A_MINUTE * _MINUTES


def test_a_deployment_that_hears_nothing_still_becomes_what_is_asked_for() -> None:
    # By its own clock, because what it waits for is counted in seconds, and a busy machine takes many.
    fleet = Placed(by_its_own_clock(), 20, replicas=10).fleet
    fleet.breaker("ModelDeployment", DEPLOYMENT).open(fleet.clock.now)
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=12)
    # It is looked at after fifteen seconds, and then every second.
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=20)
    assert fleet.breaker("ModelDeployment", DEPLOYMENT).dropped > 0
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=4)
    fleet.run_until(lambda: len(fleet.named("ModelReplica")) == 4, within=40)
