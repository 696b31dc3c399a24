"""A cluster of each cloud, from a member as the cloud hands it over to serving: no step is noticed late.

A step is a child that becomes Ready. Crossplane tells nothing of it once the owner's bucket is empty, which
the many children of a cloud's cluster take care of within seconds.
"""

from collections import defaultdict

import pytest

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.compose.kinds import COMPOSERS
from support.crossplane.api import Event
from support.crossplane.cloud_site import LONG_S, Site
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, model_deployment
from support.crossplane.objects import Key, condition, controller_of
from support.crossplane.scenarios import prepared, with_clusters

SOON_S = 12.0
CHAIN = ("InferenceCluster", "ServingStack")
WAITED_FOR_BY_NOBODY = ("Usage", "ClusterUsage")


class Watched:
    """When children became Ready, and when the function was asked about their owners."""

    def __init__(self, site: Site) -> None:
        self.site, self.fleet = site, site.fleet
        self.owners = (*CHAIN, f"{site.cloud}Cluster")
        self.steps: list[tuple[float, str, Key]] = []
        self.asked: defaultdict[str, list[float]] = defaultdict(list)
        send = self.fleet.api.on_event

        def seen(event: Event) -> None:
            owner = controller_of(event.new.object)
            is_step = event.key.kind not in WAITED_FOR_BY_NOBODY and self._became_ready(event)
            if owner.get("kind") in self.owners and is_step:
                self.steps.append((self.fleet.clock.now, owner["uid"], event.key))
            send(event)

        self.fleet.api.on_event = seen
        for kind in self.owners:
            composite = self.fleet.composites[kind]
            run = composite.run

            def asks(request, run=run):
                uid = request.observed.composite.resource["metadata"]["uid"]
                self.asked[uid].append(self.fleet.clock.now)
                return run(request)

            composite.run = asks

    def _became_ready(self, event: Event) -> bool:
        before = condition(event.old.object, "Ready").get("status") if event.old else ""
        return condition(event.new.object, "Ready").get("status") == "True" != before

    def late(self, until: float) -> list[str]:
        """Return the steps up to a time that nobody noticed soon."""
        found = []
        for at, owner, key in (each for each in self.steps if each[0] <= until):
            after = min((each for each in self.asked[owner] if each >= at), default=at + LONG_S)
            if after - at > SOON_S:
                found.append(f"{key} after {after - at:.0f} s")
        return found


@pytest.mark.parametrize("is_deaf", [False, True], ids=["", "while nothing is heard"])
@pytest.mark.parametrize("cloud", list(Cloud))
def test_each_step_to_a_serving_cluster_is_noticed_soon(cloud: Cloud, is_deaf: bool) -> None:
    site = Site(None, cloud)
    watched = Watched(site)
    stack_ready_at = 0.0
    while not site.fleet.is_true("InferenceCluster", site.name):
        assert site.fleet.clock.now < LONG_S, site.fleet.report()
        for kind in watched.owners if is_deaf else ():
            for name in site.fleet.named(kind):
                breaker = site.fleet.breaker(kind, name)
                # What was never asked about is a new object, which a bucket of its own begins with.
                if not breaker.is_open and condition(site.fleet.get(kind, name), "Synced"):
                    breaker.open(site.fleet.clock.now)
        site.fleet.run_for(1)
        if not stack_ready_at and any(
            site.fleet.is_true("ServingStack", each) for each in site.fleet.named("ServingStack")
        ):
            stack_ready_at = site.fleet.clock.now
    ready_at = site.fleet.clock.now
    assert ready_at - stack_ready_at <= SOON_S
    site.fleet.run_for(SOON_S)
    assert watched.late(until=ready_at) == []


def test_a_young_fleet_is_seldom_asked_about() -> None:
    """A hundred clusters and ten replicas in one run, from fifteen seconds after they are Ready."""
    minutes, fleet = 8, prepared(by_its_own_clock())
    fleet.api.request_s = 0.01
    with_clusters(fleet, *(f"c{number:03}" for number in range(100)), nodes=1)
    fleet.apply(model_deployment(replicas=10))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(15)
    looks = []
    for _ in range(minutes):
        before = sum(len(fleet.calls(kind)) for kind in COMPOSERS)
        fleet.run_for(60)
        # The first of two calls tells what is required.
        looks.append((sum(len(fleet.calls(kind)) for kind in COMPOSERS) - before) / 2)
    assert sum(looks) <= 40 * minutes, looks
    assert max(looks) <= 60, "clusters that were registered together drift apart"


def test_a_young_fleet_of_clusters_is_seldom_asked_about() -> None:
    """A hundred clusters get 25 of the 40 reconciles a minute of a young fleet with ten replicas."""
    minutes, names = 8, [f"c{number}" for number in range(20)]
    fleet = with_clusters(prepared(by_its_own_clock()), *names)
    fleet.run_for(15)
    before = len(fleet.calls("InferenceCluster"))
    fleet.run_for(60 * minutes)
    asked = fleet.calls("InferenceCluster")[before:]
    assert {call.of.name for call in asked} == set(names)
    # The first of two calls tells what is required.
    assert len(asked) / 2 <= 25 * minutes * len(names) / 100
