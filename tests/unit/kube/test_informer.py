"""The informer against a server that says what the test lets it say."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from support.api_server import Recorder, client_of

Answer = httpx2.Response | Exception


def _pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def _list(version: int, *pods: dict[str, Any]) -> Answer:
    body = {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(pods)}
    return httpx2.Response(200, json=body)


class _Watch(httpx2.AsyncByteStream):
    """A watch that stays open and brings what the test sends."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, type_: str, item: dict[str, Any]) -> None:
        self._lines.put_nowait(json.dumps({"type": type_, "object": item}).encode() + b"\n")

    def end(self) -> None:
        self._lines.put_nowait(b"")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while line := await self._lines.get():
            yield line


class Server:
    """Answers lists in turn, the last one for ever; and watches with the one that the test holds."""

    def __init__(self, *lists: Answer) -> None:
        self.lists = list(lists)
        self.watch = _Watch()
        self.watched_from: list[str] = []
        self.listed = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if "watch" in request.url.params:
            self.watched_from.append(request.url.params["resourceVersion"])
            return httpx2.Response(200, stream=self.watch)
        if request.url.path != "/api/v1/pods":
            return httpx2.Response(404, text="default backend - 404")
        self.listed += 1
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, Exception):
            raise answer
        # A response is read once; the next list needs one of its own.
        return httpx2.Response(answer.status_code, content=answer.content)


@asynccontextmanager
async def _running(server: Server) -> AsyncIterator[tuple[Informer, list[tuple[str, str, bool]]]]:
    """Run an informer; what its handler hears is name, version, and whether the object is there."""
    heard: list[tuple[str, str, bool]] = []

    def hear(item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        heard.append(
            (metadata["uid"], metadata["resourceVersion"], informer.get(metadata["name"], "n") is not None)
        )

    client = Client(
        httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(server)), "tester"
    )
    informer = Informer(client, resources.PODS, on_change=hear)
    task = asyncio.create_task(informer.run())
    try:
        yield informer, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_write_that_answers_after_the_deletion_does_not_bring_the_object_back() -> None:
    server = Server(_list(5, _pod("a", 5)))
    async with _running(server) as (informer, _):
        await informer.wait_until_synced()
        server.watch.send("DELETED", _pod("a", 7))
        await _until(lambda: not len(informer))
        informer.remember(_pod("a", 6))
        assert informer.get("a", "n") is None
        informer.remember(_pod("a", 8, "uid-new"))
        assert informer.get("a", "n") is not None, "what was made since stays"


def _held(version: int, *finalizers: str, **fields: Any) -> dict[str, Any]:
    pod = _pod("a", version)
    return {**pod, **fields, "metadata": {**pod["metadata"], "finalizers": [*finalizers]}}


@pytest.mark.parametrize(
    ("changed", "is_told"),
    [
        pytest.param(_held(7, "x", "y"), False, id="one more finalizer"),
        pytest.param(_held(7, "y", "x"), False, id="before the one that was there"),
        pytest.param(_held(7), True, id="none any more"),
        pytest.param(_held(7, "y"), True, id="another one in its place"),
        pytest.param(_held(7, "x"), True, id="the same, and nobody knows what changed"),
        pytest.param(_held(7, "x", "y", status={"phase": "Running"}), True, id="a status, too"),
    ],
)
async def test_that_an_object_is_held_is_in_the_copy_and_told_to_nobody(
    changed: dict[str, Any], is_told: bool
) -> None:
    """Nobody composes from finalizers. The watch may deliver one before the answer to whoever wrote it."""
    for holds in (True, False):
        informer = Informer(client_of(Recorder({})), resources.PODS, holds=holds)
        informer.remember(_held(5, "x"))
        told: list[dict[str, Any]] = []
        informer.add_handler(told.append)
        informer.remember(copy.deepcopy(changed))
        known = informer.get("a", "n")
        assert known
        assert known["metadata"]["resourceVersion"] == "7"
        assert len(told) == 1 + (is_told or holds)


async def test_the_objects_of_a_namespace_follow_every_change() -> None:
    server = Server(_list(5, _pod("a", 5), _pod("b", 4)), _list(20, _pod("b", 10, "restored")))
    async with _running(server) as (informer, _):

        def found() -> list[tuple[str, str]]:
            every = informer.in_namespace("n")
            return [(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in every]

        await informer.wait_until_synced()
        assert found() == [("uid-a", "5"), ("uid-b", "4")]
        informer.remember(_pod("a", 7))
        server.watch.send("DELETED", _pod("b", 8))
        await _until(lambda: len(informer) == 1)
        assert found() == [("uid-a", "7")]
        assert informer.in_namespace("other") == ()
        server.watch.send("ERROR", {"code": 410})
        await _until(lambda: server.listed == 2)
        await _settle()
        assert found() == [("restored", "10")]
        server.watch.send("DELETED", _pod("b", 21, "restored"))
        await _until(lambda: not len(informer))
        assert found() == []


async def test_a_write_is_read_before_the_watch_brings_it() -> None:
    server = Server(_list(5))
    async with _running(server) as (informer, heard):
        await informer.wait_until_synced()
        informer.remember(_pod("a", 7))
        assert len(informer) == 1
        server.watch.send("ADDED", _pod("a", 6))
        server.watch.send("MODIFIED", _pod("a", 7))
        await _settle()
        assert heard == [("uid-a", "7", True)], "older news is no news"


async def test_who_wrote_which_field_is_not_kept() -> None:
    pod = _pod("a", 3)
    listed = {**pod, "metadata": {**pod["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    async with _running(Server(_list(5, listed))) as (informer, _):
        await informer.wait_until_synced()
        assert informer.get("a", "n") == pod


async def test_a_list_older_than_a_write_does_not_take_the_write_back() -> None:
    server = Server(_list(5), _list(6, _pod("b", 4)))
    async with _running(server) as (informer, heard):
        await informer.wait_until_synced()
        informer.remember(_pod("a", 7))
        server.watch.send("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})
        await _until(lambda: server.listed == 2)
        await _settle()
        assert heard == [("uid-a", "7", True), ("uid-b", "4", True)]


@pytest.mark.parametrize("by", ["a write", "a list"])
async def test_an_object_made_anew_under_the_same_name_is_told_as_gone_and_come(by: str) -> None:
    server = Server(_list(5, _pod("a", 5, "old")), _list(9, _pod("a", 8, "new")))
    async with _running(server) as (informer, heard):
        await informer.wait_until_synced()
        if by == "a write":
            informer.remember(_pod("a", 8, "new"))
            server.watch.send("DELETED", _pod("a", 7, "old"))
        else:
            server.watch.send("ERROR", {"code": 410})
        await _until(lambda: len(heard) == 3)
        assert heard == [("old", "5", True), ("old", "5", False), ("new", "8", True)]


async def test_a_server_that_was_restored_is_believed() -> None:
    server = Server(_list(900, _pod("a", 800), _pod("b", 700)), _list(20, _pod("a", 10, "restored")))
    async with _running(server) as (informer, _):
        await informer.wait_until_synced()
        server.watch.send("ERROR", {"code": 410})
        await _until(lambda: server.listed == 2)
        await _settle()
        assert [item["metadata"]["uid"] for item in informer] == ["restored"]
        assert server.watched_from[-1] == "20"


async def test_what_a_restored_server_still_has_is_not_told_as_gone() -> None:
    server = Server(_list(900, _pod("a", 800)), _list(20, _pod("a", 10)))
    async with _running(server) as (informer, heard):
        await informer.wait_until_synced()
        server.watch.send("ERROR", {"code": 410})
        await _until(lambda: len(heard) == 2)
        assert heard == [("uid-a", "800", True), ("uid-a", "10", True)]


async def test_an_outage_ends_with_a_new_list() -> None:
    server = Server(_list(5, _pod("a", 5)), httpx2.ConnectError("refused"), _list(9, _pod("b", 8)))
    async with _running(server) as (informer, heard):
        await informer.wait_until_synced()
        server.watch.send("ERROR", {"code": 500, "message": "etcd is away"})
        await _until(lambda: informer.problem == "refused")
        assert informer.get("a", "n") is not None, "what is known stays while the server is away"
        server.watch = _Watch()
        await _until(lambda: not informer.problem)
        assert heard[1:] == [("uid-a", "5", False), ("uid-b", "8", True)]


async def test_a_watch_goes_on_from_the_last_bookmark() -> None:
    server = Server(_list(5))
    async with _running(server) as (informer, _):
        await informer.wait_until_synced()
        server.watch.send("BOOKMARK", _pod("", 40))
        ended, server.watch = server.watch, _Watch()
        ended.end()
        await _until(lambda: len(server.watched_from) == 2)
        assert (server.watched_from, server.listed) == (["5", "40"], 1)


@pytest.mark.virtual_time
async def test_watches_that_end_at_once_are_not_opened_without_end() -> None:
    server = Server(_list(5))
    async with _running(server) as (informer, _):
        await informer.wait_until_synced()
        for _ in range(50):
            server.watch.end()
        await asyncio.sleep(0.5)
        assert len(server.watched_from) < 6


async def test_a_404_of_something_in_between_is_not_an_empty_cluster() -> None:
    server = Server(_list(5, _pod("a", 5)), httpx2.Response(404, text="default backend - 404"))
    async with _running(server) as (informer, _):
        await informer.wait_until_synced()
        server.watch.send("ERROR", {"code": 410})
        await _until(lambda: informer.problem)
        assert len(informer) == 1


async def test_a_handlers_bug_does_not_keep_a_change_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(_list(5))
    async with _running(server) as (informer, _):
        await informer.wait_until_synced()
        late: list[str] = []

        def fail(_item: dict[str, Any]) -> None:
            raise ValueError("a bug")

        informer.add_handler(fail)
        informer.add_handler(lambda item: late.append(item["metadata"]["name"]))
        server.watch.send("ADDED", _pod("a", 6))
        await _until(lambda: late == ["a"])
        assert "cannot handle a change of Pod n/a" in caplog.text
        assert (informer.problem, server.listed) == ("", 1)


async def test_a_copy_that_is_known_to_begin_empty_is_good_at_once_and_watched_from_there() -> None:
    server = Server(_list(90, _pod("b", 80)))
    client = Client(
        httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(server)), "tester"
    )
    answered: list[str] = []
    informer = Informer(client, resources.PODS, on_answer=lambda each: answered.append(each.problem))
    informer.begin_empty(6)
    assert informer.synced
    informer.remember(_pod("a", 7))
    task = asyncio.create_task(informer.run())
    await _until(lambda: server.watched_from == ["6"])
    assert (server.listed, [item["metadata"]["name"] for item in informer], answered) == (0, ["a"], [])
    server.watch.send("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})
    await _until(lambda: answered)
    assert ([item["metadata"]["name"] for item in informer], answered) == (["b"], [""]), "then it is listed"
    server.lists = [httpx2.ConnectError("refused")]
    server.watch.send("ERROR", {"code": 500, "message": "etcd is away"})
    await _until(lambda: len(answered) > 1)
    assert answered == ["", "etcd is away"], "an outage is told once, when it begins"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()


async def test_copies_that_begin_empty_open_their_watches_in_one_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.1
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    turns, opened = 0, dict[str, int]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        opened[request.url.path] = turns
        return httpx2.Response(500, json={"kind": "Status", "message": "later"})

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(answer))
    informers = [Informer(Client(http, "tester"), kind) for kind in (resources.PODS, resources.SERVICES)]
    tasks = [asyncio.create_task(count())]
    for informer in informers:
        informer.begin_empty(6)
        tasks.append(asyncio.create_task(informer.run()))
        for _ in range(10):
            await asyncio.sleep(0)
        now += 0.1
    assert not opened
    now = 0.3
    for _ in range(1000):
        await asyncio.sleep(0)
    first, second = opened.values()
    assert second - first <= 2, "each by itself would be many turns of the loop after the other"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await http.aclose()
