"""What is said of containers that start, end, break off and come back, each scripted."""

import asyncio
from collections import defaultdict
from dataclasses import replace

import pytest

from modelplane.cli import pod_logs
from modelplane.cli.pod_logs import Container, Follower, Found, Wanted, show
from modelplane.kube.errors import Forbidden, Invalid, Unreachable

pytestmark = pytest.mark.virtual_time


class Logs:
    """A client whose logs are given beforehand: for each time that a log is asked for, lines and an error."""

    def __init__(self):
        self.scripts = defaultdict(list)
        self.asked = []

    def script(self, path, *lines, error=None):
        self.scripts[path].append((lines, error))

    async def lines(self, path, params):
        self.asked.append(params)
        if not self.scripts[path]:
            raise Unreachable("nothing is left to say")
        lines, error = self.scripts[path].pop(0)
        for line in lines:
            yield line
        if error is not None:
            raise error


@pytest.fixture
def logs():
    return Logs()


def container(logs, pod="a", *, starts=0, running=True, alone=True):
    return Container("west", logs, "ml", pod, f"uid-{pod}", "engine", alone, starts, running)


def path(pod="a"):
    return f"/api/v1/namespaces/ml/pods/{pod}/log"


class Told:
    def __init__(self):
        self.lines, self.notes = [], []

    def line(self, container, line):
        self.lines.append(f"{container} {line.decode()}")


@pytest.fixture
def told():
    return Told()


def test_a_container_is_told_by_its_pod_and_by_its_name_where_it_has_neighbours(logs):
    assert str(container(logs)) == "west/a"
    assert str(container(logs, alone=False)) == "west/a/engine"


def test_only_what_is_wanted_is_asked_for():
    assert Wanted().params("engine") == {"container": "engine", "timestamps": "true"}
    assert Wanted(5, 60, previous=True).params("engine") == {
        "container": "engine",
        "timestamps": "true",
        "tailLines": "5",
        "sinceSeconds": "60",
        "previous": "true",
    }


async def test_a_log_that_cannot_be_read_does_not_keep_the_others_from_being_shown(logs, told):
    logs.script(path("a"), error=Forbidden(403, "Forbidden", "you may not"))
    logs.script(path("b"), b"T1 one", b"T2 two words")
    await show([container(logs, "a"), container(logs, "b")], Wanted(), told.line, told.notes.append)
    assert told.lines == ["west/b one", "west/b two words"]
    remedy = "apply there the manifests that `modelplane install --inference-cluster` prints"
    assert told.notes == [f"cannot read the log of west/a: you may not: {remedy}"]


async def follow(told, *looks, wanted=None):
    """Follow what each look finds in turn, and nothing after the last."""
    found = iter(looks)

    async def look():
        await asyncio.sleep(0)
        return next(found, None)

    await Follower(wanted or Wanted(), told.line, told.notes.append).follow(look)


async def test_a_pod_that_comes_later_is_followed_from_its_first_line(logs, told):
    logs.script(path("a"), b"T1 old")
    logs.script(path("b"), b"T2 new")
    first, second = container(logs, "a", running=False), container(logs, "b", running=False)
    await follow(told, Found((first,), ()), Found((first, second), ()), wanted=Wanted(tail=1))
    assert told.lines == ["west/a old", "west/b new"]
    assert [each.get("tailLines") for each in logs.asked] == ["1", None]


async def test_after_a_lost_connection_nothing_is_said_twice(logs, told):
    logs.script(path(), b"T1 one", b"T2 two", error=Unreachable("lost"))
    logs.script(path(), b"T2 two", b"T3 three")
    ended = container(logs, running=False)
    await follow(told, Found((container(logs),), ()), Found((ended,), ()), Found((ended,), ()))
    assert told.lines == ["west/a one", "west/a two", "west/a three"]
    assert logs.asked[1]["sinceTime"] == "T2"
    assert told.notes == []


async def test_a_container_that_starts_again_is_followed_again(logs, told):
    logs.script(path(), b"T1 first")
    logs.script(path(), b"T2 second")
    before, after = container(logs, running=False), container(logs, starts=1, running=False)
    await follow(told, Found((before,), ()), Found((before,), ()), Found((after,), ()), Found((after,), ()))
    assert told.lines == ["west/a first", "west/a second"]
    assert len(logs.asked) == 2, "a log that was read to its end is not read again"


async def test_what_a_container_says_after_the_clock_was_set_back_is_told(logs, told):
    logs.script(path(), b"2026-01-01T12:10:00.5Z before")
    logs.script(path(), b"2026-01-01T12:05:00.5Z after")
    first = replace(container(logs), began="2026-01-01T12:09:00Z")
    second = replace(container(logs, starts=1), began="2026-01-01T12:04:00Z")
    await follow(
        told, Found((first,), ()), Found((second,), ()), Found((replace(second, running=False),), ())
    )
    assert told.lines == ["west/a before", "west/a after"]


@pytest.mark.parametrize(
    ("status", "began"),
    [
        pytest.param({"state": {"running": {"startedAt": "T2"}}}, "T2", id="it runs"),
        pytest.param({"state": {"terminated": {"startedAt": "T2"}}}, "T2", id="it has ended"),
        pytest.param(
            {"state": {"waiting": {}}, "lastState": {"terminated": {"startedAt": "T1"}}}, "T1", id="it waits"
        ),
        pytest.param({"state": {"terminated": {"startedAt": None}}}, "", id="it never started"),
        pytest.param({}, "", id="nothing is known"),
    ],
)
def test_when_a_container_was_last_started(status, began):
    assert pod_logs._began(status) == began


async def test_a_container_that_waits_is_told_once_and_tried_again(logs, told):
    waiting = container(logs, running=False)
    for _ in range(2):
        logs.script(path(), error=Invalid(400, "BadRequest", "it is waiting to start"))
    logs.script(path(), b"T1 started")
    await follow(told, *[Found((waiting,), ())] * 4)
    assert told.lines == ["west/a started"]
    assert told.notes == ["cannot read the log of west/a yet: it is waiting to start"]


async def test_a_problem_is_told_when_it_comes_and_when_it_comes_again(told):
    away, back = Found((), ("west is away",)), Found((), ())
    await follow(told, away, away, back, away)
    assert told.notes == ["west is away", "west is away"]
