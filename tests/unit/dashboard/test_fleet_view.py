"""The view of a live fleet: objects as they are watched, traffic as it is fed, and what is missing."""

import asyncio
import errno
from datetime import UTC, datetime

import pytest

from modelplane.dashboard.fleet_view import FleetView, Watched
from modelplane.gateway.usage.usage_sums import UsageRecord
from support import shown_fleet

INFERENCE_CLUSTERS = "/apis/modelplane.ai/v1alpha1/inferenceclusters"


@pytest.fixture
def watched(plane, client) -> Watched:
    fleet = shown_fleet.ShownFleet(shown_fleet.now())
    fleet.cluster("a", "eu", {"l4": 1})
    plane.has(fleet.objects["InferenceCluster"])
    return Watched(client, datetime.now(UTC))


async def until(view: FleetView, holds) -> None:
    async with asyncio.timeout(30):
        while not holds(view()):
            await asyncio.sleep(0.01)


async def test_objects_and_rates_are_of_one_view_that_has_a_version(watched):
    fed = [[UsageRecord(time=datetime.now(UTC), status=200, service="ml-team/qwen")]]
    view = FleetView(watched, lambda: fed.pop() if fed else [])
    async with watched.keep_current(30):
        before = view()
        async with view.follow():
            await until(view, lambda now: now.rates)

            assert [each.name for each in view().snapshot.clusters] == ["a"]
            assert view().snapshot is before.snapshot
            assert view().version != before.version
            assert view().problems == ()


async def test_records_that_cannot_be_read_are_unknown_traffic(watched):
    def refuse():
        raise PermissionError(errno.EACCES, "Permission denied")

    view = FleetView(watched, refuse)
    async with watched.keep_current(30), view.follow():
        await until(view, lambda now: now.traffic_problem)

        assert view().traffic_problem == "the usage records cannot be read: Permission denied"


async def test_a_kind_that_may_not_be_read_is_named_and_the_others_are_shown(plane, watched):
    plane.refuse("GET", INFERENCE_CLUSTERS.replace("clusters", "classes"), 403, "forbidden")
    view = FleetView(watched, list)
    async with watched.keep_current(0.5):
        [problem] = view().problems

        assert problem.startswith("inferenceclasses: cannot be read: ")
        assert [each.name for each in view().snapshot.clusters] == ["a"]


async def test_a_fleet_that_does_not_answer_is_not_shown_as_empty(plane, watched):
    plane.silent = True
    async with watched.keep_current(0.1):
        assert len(watched.list_problems()) == 10
        assert all(each.endswith(": not read yet") for each in watched.list_problems())
