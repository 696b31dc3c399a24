"""The election: what one candidate concludes, and what a few of them do, on a clock of the test's own."""

import asyncio
import itertools
import random
from typing import Any

import httpx2
import pytest

from modelplane.controllers.leader import STANDARD, Candidacy, Deposed, Election
from modelplane.kube import errors
from support import virtual_time
from support.election import Leases, Process

PATH = "/apis/coordination.k8s.io/v1/namespaces/modelplane-system/leases/modelplane-controller"

TAKEN_OVER_S = STANDARD.duration_s + 1.1 * STANDARD.retry_s
"""The longest time from a leader's last renewal to another's beginning, a request's own time apart."""


def lease(version: int, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "spec": spec}


def a_leader() -> Candidacy:
    """Return a candidate that took the lease at 0."""
    candidacy = Candidacy("a", STANDARD)
    candidacy.saw(None, 0)
    spec = candidacy.claim(0, "then")
    assert spec is not None
    candidacy.wrote(lease(1, **spec), 0, 0)
    return candidacy


def test_a_lease_that_nobody_made_is_claimed() -> None:
    candidacy = Candidacy("a", STANDARD)
    candidacy.saw(None, 0)
    assert candidacy.claim(0, "now") == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "now",
        "renewTime": "now",
        "leaseTransitions": 0,
    }


@pytest.mark.parametrize(
    ("spec", "free_at"),
    [
        pytest.param({}, 0, id="without a holder it is free"),
        pytest.param({"holderIdentity": "", "leaseDurationSeconds": 1}, 0, id="given back it is free"),
        pytest.param(
            {"holderIdentity": "b", "leaseDurationSeconds": 30}, 30, id="its holder says how long it lasts"
        ),
        pytest.param({"holderIdentity": "b"}, 15, id="where it does not say, it lasts as long as ours"),
    ],
)
def test_when_a_lease_may_be_claimed(spec: dict[str, Any], free_at: float) -> None:
    candidacy = Candidacy("a", STANDARD)
    # Times in it are another machine's.
    candidacy.saw(lease(7, renewTime="1970-01-01T00:00:00Z", leaseTransitions=4, **spec), 100)
    if free_at:
        assert candidacy.claim(100 + free_at - 0.1, "now") is None
    claimed = candidacy.claim(100 + free_at, "now")
    assert claimed is not None
    assert claimed["leaseTransitions"] == 5


def test_every_change_makes_a_candidate_wait_anew() -> None:
    candidacy = Candidacy("a", STANDARD)
    candidacy.saw(lease(1, holderIdentity="b"), 0)
    candidacy.saw(lease(2, holderIdentity="b"), 14)
    candidacy.saw(lease(2, holderIdentity="b"), 28)
    assert candidacy.claim(28.9, "now") is None
    assert candidacy.claim(29, "now") is not None


def test_a_lease_that_somebody_deleted_may_still_be_acted_on_by_its_holder() -> None:
    candidacy = Candidacy("a", STANDARD)
    candidacy.saw(lease(1, holderIdentity="b"), 0)
    candidacy.saw(None, 10)
    assert candidacy.claim(14.9, "now") is None
    assert candidacy.claim(15, "now") is not None


def test_a_renewal_keeps_since_when_it_leads() -> None:
    spec = a_leader().claim(2, "later")
    assert spec is not None
    assert (spec["acquireTime"], spec["renewTime"], spec["leaseTransitions"]) == ("then", "later", 0)


def test_a_leader_counts_from_when_it_sent_its_last_renewal() -> None:
    candidacy = a_leader()
    candidacy.wrote(lease(2, holderIdentity="a"), 3, 9)
    assert candidacy.leads(12.9)
    assert not candidacy.leads(13)


def test_who_was_late_once_leads_no_more() -> None:
    candidacy = a_leader()
    assert candidacy.claim(10, "now") is None
    candidacy.wrote(lease(2, holderIdentity="a"), 10, 10)
    assert not candidacy.leads(10)


def test_a_leader_that_sees_another_one_leads_no_more() -> None:
    candidacy = a_leader()
    candidacy.saw(lease(2, holderIdentity="b"), 1)
    assert not candidacy.leads(1)


def _now() -> float:
    return asyncio.get_running_loop().time()


def test_a_leader_that_stops_hands_over_at_once() -> None:
    async def scenario() -> None:
        leases = Leases()
        first = Process(leases, "first")
        await asyncio.sleep(1)
        second = Process(leases, "second")
        await asyncio.sleep(100)
        assert (first.began, second.began) == ([0], [])
        await first.stop()
        assert leases.lease is not None
        assert (leases.lease["spec"]["holderIdentity"], first.election.fence()) == (
            "",
            "this process does not hold the lease",
        )
        await asyncio.sleep(1.1 * STANDARD.retry_s)
        [began] = second.began
        assert began - first.ended[0] <= 1.1 * STANDARD.retry_s
        assert leases.lease["spec"]["leaseTransitions"] == 1
        await second.stop()

    virtual_time.run(scenario())


def test_a_leader_that_dies_is_followed_within_its_lease_and_a_retry() -> None:
    async def scenario() -> None:
        leases = Leases()
        dead: set[str] = set()

        async def way(identity: str) -> None:
            if identity in dead:
                await asyncio.Event().wait()

        leases.way = way
        first = Process(leases, "first")
        await asyncio.sleep(1)
        second = Process(leases, "second")
        await asyncio.sleep(100)
        dead.add("first")
        died = _now()
        await asyncio.sleep(TAKEN_OVER_S)
        assert died < second.began[0] <= died + TAKEN_OVER_S
        await first.stop()
        await second.stop()

    virtual_time.run(scenario())


def test_a_leader_that_cannot_renew_has_stopped_before_another_begins() -> None:
    async def scenario() -> None:
        leases = Leases()
        away = False

        async def way(identity: str) -> None:
            if away and identity == "first":
                raise httpx2.ConnectError("no route to host")

        leases.way = way
        first = Process(leases, "first")
        await asyncio.sleep(1)
        second = Process(leases, "second")
        await asyncio.sleep(50)
        away = True
        with pytest.raises(Deposed) as raised:
            await first.task
        assert str(raised.value) == 'lost Lease "modelplane-system/modelplane-controller": no route to host'
        await asyncio.sleep(TAKEN_OVER_S)
        assert second.began[0] - first.ended[0] > 3
        await first.stop()
        await second.stop()

    virtual_time.run(scenario())


def test_one_that_was_stopped_for_long_notices_first() -> None:
    async def scenario() -> None:
        leases = Leases()
        stopped_for = 0.0
        client = leases.client("first")
        election = Election(client, "modelplane-system", identity="first", clock=lambda: _now() + stopped_for)
        task = asyncio.create_task(election.lead(lambda: asyncio.sleep(3600)))
        await asyncio.sleep(5)
        assert election.fence() == ""
        stopped_for = 30.0
        assert election.fence() == "this process does not hold the lease"
        with pytest.raises(Deposed, match="it was not renewed for 10 s"):
            await task
        await client.close()

    virtual_time.run(scenario())


def test_work_that_fails_gives_the_lease_back() -> None:
    async def work() -> None:
        raise ValueError("a bug")

    async def scenario() -> None:
        leases = Leases()
        client = leases.client("first")
        with pytest.raises(ValueError, match="a bug"):
            await Election(client, "modelplane-system", identity="first", clock=_now).lead(work)
        assert leases.lease is not None
        assert leases.lease["spec"]["holderIdentity"] == ""
        await client.close()

    virtual_time.run(scenario())


def test_one_that_cannot_read_the_lease_says_why() -> None:
    async def scenario() -> None:
        leases = Leases()
        leases.way = _forbid
        process = Process(leases, "first")
        await asyncio.sleep(1)
        assert process.election.problem == "leases is forbidden"
        await process.stop()

    virtual_time.run(scenario())


@pytest.mark.parametrize("takes_s", [0.1, 3.0, 4.8])
def test_a_slow_api_server_has_a_leader_too(takes_s: float) -> None:
    """Each request takes so long; one that takes as long as half the deadline is given up."""

    async def way(_identity: str) -> None:
        await asyncio.sleep(takes_s / 2)

    async def scenario() -> list[Process]:
        leases = Leases()
        leases.way = way
        candidates = [Process(leases, name) for name in ("first", "second")]
        await asyncio.sleep(600)
        leading = [each for each in candidates if each.election.leads]
        for each in candidates:
            await each.stop()
        return leading

    [leading] = virtual_time.run(scenario())
    assert leading.ended[0] - leading.began[0] > 550, "from the first attempt to the end"


def test_a_renewal_that_was_not_answered_is_sent_again_at_once() -> None:
    async def scenario() -> None:
        leases = Leases()
        unanswered = 0

        async def way(_identity: str) -> None:
            nonlocal unanswered
            if _now() > 20 and unanswered < 1:
                unanswered += 1
                await asyncio.Event().wait()
            await asyncio.sleep(0.4)

        leases.way = way
        process = Process(leases, "first")
        await asyncio.sleep(200)
        assert process.election.leads, "there are three seconds left after five without an answer"
        await process.stop()

    virtual_time.run(scenario())


def test_a_first_claim_that_is_answered_too_late_deposes_none() -> None:
    async def scenario() -> None:
        leases = Leases()
        process = Process(leases, "first")
        slow = True

        async def way(_identity: str) -> None:
            nonlocal slow
            await asyncio.sleep(0.01)
            if leases.lease and slow:
                slow = False
                virtual_time.stall(20)

        leases.way = way
        await asyncio.sleep(60)
        assert process.election.leads
        assert not process.is_deposed
        await process.stop()

    virtual_time.run(scenario())


async def _forbid(_identity: str) -> None:
    raise errors.Forbidden(403, "Forbidden", "leases is forbidden")


@pytest.mark.parametrize("seed", range(5))
def test_over_a_bad_network_one_works_at_a_time_and_somebody_mostly_does(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    lasts_s = 1800.0

    async def way(_identity: str) -> None:
        kind = chance.random()
        if kind < 0.1:
            raise httpx2.ReadError("lost")
        await asyncio.sleep(chance.uniform(2, 40) if kind < 0.2 else chance.uniform(0, 0.3))

    async def scenario() -> list[tuple[float, float]]:
        leases = Leases()
        leases.way = way
        running = {name: Process(leases, name) for name in ("a", "b", "c")}
        worked: list[tuple[float, float]] = []
        while _now() < lasts_s:
            await asyncio.sleep(chance.uniform(1, 60))
            for name, process in tuple(running.items()):
                # Some are restarted in good order; the deposed ones end by themselves.
                if process.task.done() or chance.random() < 0.05:
                    await process.stop()
                    worked += zip(process.began, process.ended, strict=True)
                    running[name] = Process(leases, f"{name}-{_now()}")
        for process in running.values():
            await process.stop()
            worked += zip(process.began, process.ended, strict=True)
        return sorted(worked)

    worked = virtual_time.run(scenario())
    assert [pair for pair in itertools.pairwise(worked) if pair[1][0] < pair[0][1]] == []
    assert sum(end - begin for begin, end in worked) > lasts_s / 2
