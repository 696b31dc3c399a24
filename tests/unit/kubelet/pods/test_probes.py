import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from modelplane.kubelet.pods.probes import Answer, Probe, observe_verdicts, probe
from support import virtual_time

GOOD, BAD = Answer(True), Answer(False, "HTTP status 503")


@pytest.mark.parametrize(
    ("successes", "failures", "answers", "expected"),
    [
        pytest.param(1, 3, [GOOD, GOOD], [Answer(True)], id="a verdict is given once"),
        pytest.param(1, 3, [BAD, BAD, GOOD], [Answer(True)], id="too few failures are no verdict"),
        pytest.param(
            1,
            2,
            [GOOD, BAD, BAD, GOOD],
            [Answer(True), Answer(False, "HTTP status 503"), Answer(True)],
            id="failures in a row turn it",
        ),
        pytest.param(
            1, 2, [GOOD, BAD, GOOD, BAD, GOOD], [Answer(True)], id="a streak that breaks starts anew"
        ),
        pytest.param(
            2,
            1,
            [GOOD, BAD, GOOD, GOOD],
            [Answer(False, "HTTP status 503"), Answer(True)],
            id="successes in a row turn it back",
        ),
    ],
)
async def test_answers_amount_to_verdicts(
    successes: int, failures: int, answers: list[Answer], expected: list[Answer]
) -> None:
    asked = Probe({}, 0, 0, 1, successes, failures, None)
    rest = iter(answers)
    over = asyncio.Event()

    async def ask(_handler: Mapping[str, Any], _timeout_s: float) -> Answer:
        answer = next(rest, None)
        if answer is None:
            over.set()
            await asyncio.sleep(100)
        return answer or BAD

    found: list[Answer] = []

    async def collect() -> None:
        async for verdict in observe_verdicts(asked, ask, 0):
            found.append(verdict)  # noqa: PERF401 - looked at while it grows

    task = asyncio.create_task(collect())
    await asyncio.wait_for(over.wait(), 5)
    task.cancel()
    assert found == expected


async def test_the_initial_delay_counts_from_the_start_of_the_container() -> None:
    asked = Probe({}, 30, 1, 1, 1, 1, None)

    async def ask(_handler: Mapping[str, Any], _timeout_s: float) -> Answer:
        return GOOD

    async with asyncio.timeout(2):
        async for verdict in observe_verdicts(asked, ask, running_s=40):
            assert verdict == Answer(True)
            return


@pytest.mark.parametrize(
    ("is_good", "verdicts"),
    [
        pytest.param(lambda now: now >= 1.3, [(1.4, True)], id="the first success is seen before its period"),
        pytest.param(lambda _now: False, [(10.0, False)], id="failures count once in a period"),
        pytest.param(
            lambda now: now < 0.1 or now >= 21.0,
            [(0.0, True), (20.0, False), (30.0, True)],
            id="after a success only the periods count",
        ),
    ],
)
def test_a_container_that_never_succeeded_is_asked_between_periods(is_good, verdicts) -> None:
    asked = Probe({}, 0, 10, 1, 1, 2, None)

    async def ask(_handler: Mapping[str, Any], _timeout_s: float) -> Answer:
        return Answer(is_good(asyncio.get_running_loop().time()))

    async def collect() -> list[tuple[float, bool]]:
        found: list[tuple[float, bool]] = []
        async for verdict in observe_verdicts(asked, ask, 0):
            found.append((round(asyncio.get_running_loop().time(), 1), verdict.ok))
            if len(found) == len(verdicts):
                break
        return found

    assert virtual_time.run(collect()) == verdicts


def test_the_defaults_are_those_of_kubernetes() -> None:
    handler = {"httpGet": {"port": 1}}
    assert probe({"readinessProbe": handler}, "readinessProbe") == Probe(handler, 0, 10, 1, 1, 3, None)
    assert probe({}, "readinessProbe") is None
