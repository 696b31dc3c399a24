"""Logs of containers that start, end, lose their connection and restart, each scripted."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from modelplane.compose.composition import Requirement
from modelplane.kube.errors import Forbidden, Invalid, NotFound, Unreachable
from modelplane.operations import pod_logs
from modelplane.operations.pod_logs import (
    ClusterUnreachable,
    Container,
    Follower,
    Found,
    LogOptions,
    Moment,
    find,
    show,
)

pytestmark = pytest.mark.virtual_time


class Logs:
    """A client whose logs are given beforehand: for each request for a log, its lines and an error.

    As a kubelet does, it answers with the lines since ``sinceTime``, and of these the last ``tailLines``.
    """

    def __init__(self):
        self.scripts = defaultdict(list)
        self.asked = []

    def script(self, path, *lines, error=None, silent=False):
        """``silent``: after its lines, the request is never answered any more."""
        self.scripts[path].append((lines, error, silent))

    async def read_lines(self, path, params):
        self.asked.append(params)
        if not self.scripts[path]:
            raise Unreachable("nothing is left to say")
        lines, error, silent = self.scripts[path].pop(0)
        if since := params.get("sinceTime"):
            lines = [line for line in lines if not is_before(line, since)]
        if tail := params.get("tailLines"):
            lines = lines[max(len(lines) - int(tail), 0) :]
        for line in lines:
            yield line
        if silent:
            await asyncio.get_running_loop().create_future()
        if error is not None:
            raise error


def is_before(line, since):
    """Compare as a kubelet does, which refuses what is no time and adds some lines without one."""
    wanted = datetime.fromisoformat(since)
    try:
        return datetime.fromisoformat(line.decode().partition(" ")[0]) < wanted
    except ValueError:
        return False


T1, T2, T3 = (f"2026-01-01T12:00:0{second}.5Z" for second in (1, 2, 3))


def said(*lines):
    """Return lines as a server sends them."""
    return [line.encode() for line in lines]


@pytest.fixture
def logs():
    return Logs()


def container(logs, pod="a", *, restarts=0, running=True, alone=True, started_at=""):
    started = Moment.parse(started_at)
    return Container("west", logs, "ml", pod, f"uid-{pod}", "engine", alone, restarts, running, started)


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
    assert LogOptions().to_params("engine") == {"container": "engine", "timestamps": "true"}
    assert LogOptions(5, 60, previous=True).to_params("engine") == {
        "container": "engine",
        "timestamps": "true",
        "tailLines": "5",
        "sinceSeconds": "60",
        "previous": "true",
    }


class Clusters:
    """The cluster "west" has a defect at once; every other one answers a second later."""

    def __init__(self):
        self.answered = []

    async def get_client(self, name):
        if name == "west":
            raise ZeroDivisionError
        await asyncio.sleep(1)
        self.answered.append(name)
        raise ClusterUnreachable("it does not answer")


async def test_a_defect_ends_the_listing_on_every_cluster():
    clusters: Any = Clusters()
    pods = [Requirement("", "v1", "Pod", cluster=name) for name in ("west", "east")]
    with pytest.raises(ExceptionGroup):
        await find(clusters, pods)
    await asyncio.sleep(2)
    assert clusters.answered == []


async def test_each_cluster_that_cannot_be_reached_is_one_problem():
    pods = [Requirement("", "v1", "Pod", cluster=name) for name in ("north", "east", "east")]
    clusters: Any = Clusters()
    found = await find(clusters, pods)
    assert found.problems == tuple(
        f'cannot read the pods on cluster "{name}": it does not answer' for name in ("east", "north")
    )


async def test_a_log_that_cannot_be_read_does_not_keep_the_others_from_being_shown(logs, told):
    logs.script(path("a"), error=Forbidden(403, "Forbidden", "you may not"))
    logs.script(path("b"), *said(f"{T1} one"), *said(f"{T2} two words"))
    await show([container(logs, "a"), container(logs, "b")], LogOptions(), told.line, told.notes.append)
    assert told.lines == ["west/b one", "west/b two words"]
    remedy = "on that cluster, apply the manifests that `modelplane install --inference-cluster` prints"
    assert told.notes == [f"cannot read the log of west/a: you may not: {remedy}"]


async def follow(told, *looks, wanted=None):
    """Follow what each look finds in turn, and nothing after the last."""
    found = iter(looks)

    async def look():
        await asyncio.sleep(0)
        return next(found, None)

    await Follower(wanted or LogOptions(), told.line, told.notes.append).follow(look)


async def test_a_pod_that_comes_later_is_followed_from_its_first_line(logs, told):
    logs.script(path("a"), *said(f"{T1} old"))
    logs.script(path("b"), *said(f"{T2} new"))
    first, second = container(logs, "a", running=False), container(logs, "b", running=False)
    await follow(told, Found((first,), ()), Found((first, second), ()), wanted=LogOptions(tail=1))
    assert told.lines == ["west/a old", "west/b new"]
    assert [each.get("tailLines") for each in logs.asked] == ["1", None]


async def test_after_a_lost_connection_nothing_is_said_twice(logs, told):
    logs.script(path(), *said(f"{T1} one"), *said(f"{T2} two"), error=Unreachable("lost"))
    logs.script(path(), *said(f"{T2} two"), *said(f"{T3} three"))
    ended = container(logs, running=False)
    await follow(told, Found((container(logs),), ()), Found((ended,), ()), Found((ended,), ()))
    assert told.lines == ["west/a one", "west/a two", "west/a three"]
    assert logs.asked[1]["sinceTime"] == T2
    assert told.notes == []


async def test_a_log_that_is_not_heard_any_more_is_asked_for_again(logs, told):
    logs.script(path(), *said(f"{T1} one"), silent=True)
    logs.script(path(), *said(f"{T1} one"), silent=True)
    logs.script(path(), *said(f"{T1} one", f"{T2} two"))
    await follow(told, *[Found((container(logs, running=False),), ())] * 40)
    assert told.lines == ["west/a one", "west/a two"]
    assert [each.get("sinceTime") for each in logs.asked[:3]] == [None, T1, T1]
    assert told.notes == []


async def test_the_new_lines_of_a_log_include_those_between_two_requests(logs, told):
    logs.script(path(), silent=True)
    logs.script(path(), *said(f"{T1} one"))
    ended = container(logs, running=False)
    await follow(told, *[Found((ended,), ())] * 20, wanted=LogOptions(tail=0))
    assert told.lines == ["west/a one"]
    assert [(each.get("tailLines"), each.get("sinceSeconds")) for each in logs.asked] == [
        ("0", None),
        (None, "30"),
    ]


async def test_a_log_that_is_not_answered_does_not_keep_the_others_from_being_shown(logs, told):
    logs.script(path("a"), silent=True)
    logs.script(path("b"), *said(f"{T1} one"))
    await show([container(logs, "a"), container(logs, "b")], LogOptions(), told.line, told.notes.append)
    assert told.lines == ["west/b one"]
    assert told.notes == ["cannot read the log of west/a: no lines for 30 s"]


async def test_a_log_that_is_lost_again_before_it_has_a_line_is_told(logs, told):
    away = NotFound(404, "NotFound", "the node does not know the pod")
    logs.script(path(), *said(f"{T1} one"), error=Unreachable("lost"))
    for error in (away, None, away, away, away):
        logs.script(path(), error=error)
    await follow(told, *[Found((container(logs),), ())] * 6)
    assert told.notes == ["cannot read the log of west/a yet: the node does not know the pod"]


async def test_a_container_that_starts_again_is_followed_again(logs, told):
    logs.script(path(), *said(f"{T1} first"))
    logs.script(path(), *said(f"{T2} second"))
    before, after = container(logs, running=False), container(logs, restarts=1, running=False)
    await follow(told, Found((before,), ()), Found((before,), ()), Found((after,), ()), Found((after,), ()))
    assert told.lines == ["west/a first", "west/a second"]
    assert len(logs.asked) == 2, "a log that was read to its end is not read again"


async def test_of_a_container_that_restarts_more_than_the_tail_is_shown(logs, told):
    logs.script(path(), *said(f"{T1} one", f"{T1} two"))
    logs.script(path(), *said(f"{T2} three", f"{T3} four"))
    before, after = container(logs, running=False), container(logs, restarts=1, running=False)
    options = LogOptions(tail=1)
    await follow(told, Found((before,), ()), Found((after,), ()), Found((after,), ()), wanted=options)
    assert told.lines == ["west/a two", "west/a three", "west/a four"]


async def test_every_line_of_a_start_after_the_clock_was_set_back_is_shown(logs, told):
    logs.script(path(), *said("2026-01-01T12:10:00.5Z before"))
    logs.script(path(), *said("2026-01-01T12:05:00.5Z after", "2026-01-01T12:05:00.6Z later"))
    first = container(logs, started_at="2026-01-01T12:09:00Z")
    second = container(logs, restarts=1, started_at="2026-01-01T12:04:00Z")
    looks = [Found((each,), ()) for each in (first, second, replace(second, running=False))]
    await follow(told, *looks, wanted=LogOptions(tail=1))
    assert told.lines == ["west/a before", "west/a after", "west/a later"]


async def test_times_are_compared_across_time_zones(logs, told):
    # The line of the second start came before the listing showed that start.
    sent = said("2026-01-01T14:10:00.5+02:00 before", "2026-01-01T14:11:00.5+02:00 after")
    logs.script(path(), *sent, error=Unreachable("lost"))
    logs.script(path(), sent[1], *said("2026-01-01T14:12:00+02:00 later"))
    first = container(logs, started_at="2026-01-01T12:09:00Z")
    second = container(logs, restarts=1, running=False, started_at="2026-01-01T12:11:00Z")
    await follow(told, *[Found((each,), ()) for each in (first, second, second)])
    assert told.lines == ["west/a before", "west/a after", "west/a later"]


async def test_a_line_without_a_time_is_shown_whole_and_does_not_end_the_log(logs, told):
    failed = "failed to create fsnotify watcher: too many open files"
    logs.script(path(), *said(f"{T1} one", failed))
    logs.script(path(), *said(f"{T1} one", f"{T2} two", failed))
    logs.script(path(), *said(f"{T2} two", f"{T3} three"))
    running, ended = container(logs), container(logs, running=False)
    await follow(told, *[Found((each,), ()) for each in (running, running, ended, ended)])
    assert told.lines == ["west/a one", f"west/a {failed}", "west/a two", "west/a three"]
    assert [each.get("sinceTime") for each in logs.asked] == [None, T1, T2]
    assert told.notes == []


async def test_a_line_without_a_time_is_shown_whole_when_a_log_is_read_once(logs, told):
    logs.script(path(), *said("unable to retrieve container logs for containerd://1"))
    await show([container(logs)], LogOptions(), told.line, told.notes.append)
    assert told.lines == ["west/a unable to retrieve container logs for containerd://1"]


@pytest.mark.parametrize(
    ("status", "started_at"),
    [
        pytest.param({"state": {"running": {"startedAt": T2}}}, T2, id="it runs"),
        pytest.param({"state": {"terminated": {"startedAt": T2}}}, T2, id="it has ended"),
        pytest.param(
            {"state": {"waiting": {}}, "lastState": {"terminated": {"startedAt": T1}}}, T1, id="it waits"
        ),
        pytest.param({"state": {"terminated": {"startedAt": None}}}, "", id="it never started"),
        pytest.param({}, "", id="nothing is known"),
    ],
)
def test_when_a_container_was_last_started(status, started_at):
    assert pod_logs._started_at(status) == Moment.parse(started_at)


@pytest.mark.parametrize("text", ["", "failed", "2026-01-01", "2026-13-01T12:00:00Z", "2026-01-01T12:00:00"])
def test_what_is_no_time_is_not_read_as_one(text):
    assert Moment.parse(text) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        pytest.param("2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5Z", id="a fraction of a second"),
        pytest.param("2026-01-01T12:00:00.000000001Z", "2026-01-01T12:00:00.00000001Z", id="nanoseconds"),
        pytest.param("2026-01-01T13:30:00+02:00", "2026-01-01T12:00:00Z", id="another time zone"),
    ],
)
def test_times_are_ordered_by_what_they_mean(earlier, later):
    first, second = Moment.parse(earlier), Moment.parse(later)
    assert first is not None
    assert second is not None
    assert (second.is_after(first), first.is_after(second), first.is_after(first)) == (True, False, False)


async def test_a_container_that_waits_is_told_once_and_tried_again(logs, told):
    waiting = container(logs, running=False)
    for _ in range(2):
        logs.script(path(), error=Invalid(400, "BadRequest", "it is waiting to start"))
    logs.script(path(), *said(f"{T1} started"))
    await follow(told, *[Found((waiting,), ())] * 4)
    assert told.lines == ["west/a started"]
    assert told.notes == ["cannot read the log of west/a yet: it is waiting to start"]


async def test_a_problem_is_told_when_it_comes_and_when_it_comes_again(told):
    away, back = Found((), ("west is away",)), Found((), ())
    await follow(told, away, away, back, away)
    assert told.notes == ["west is away", "west is away"]
