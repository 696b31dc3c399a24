import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from modelplane.kube import errors, resources
from modelplane.kube.http_messages import WatchEvent
from support.api_server import Chunks, Recorder, client_of


async def test_items_of_a_list_know_their_kind() -> None:
    server = Recorder({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {}}]})
    answer = await client_of(server).list(resources.PODS, "n", labels="a=b", fields="c=d", metadata_only=True)
    assert answer.items == ({"metadata": {}, "apiVersion": "v1", "kind": "Pod"},)
    assert answer.resource_version == "9"
    assert server.seen[1:3] == ("/api/v1/namespaces/n/pods", {"labelSelector": "a=b", "fieldSelector": "c=d"})
    assert server.request.headers["accept"].startswith("application/json;as=PartialObjectMetadataList")


async def test_a_list_of_nothing_may_be_null() -> None:
    server = Recorder({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": None})
    assert (await client_of(server).list(resources.PODS)).items == ()


async def _watched(*chunks: bytes) -> list[WatchEvent]:
    client = client_of(lambda _: httpx2.Response(200, stream=Chunks(*chunks)))
    return [event async for event in client.watch(resources.PODS, "1")]


async def test_an_event_ends_where_its_line_does_and_nowhere_else() -> None:
    event = json.dumps({"type": "ADDED", "object": {"note": "next\x85line\u2028here"}}, ensure_ascii=False)
    line = f"{event}\n".encode()
    expected = WatchEvent("ADDED", {"note": "next\x85line\u2028here", "apiVersion": "v1", "kind": "Pod"})
    assert await _watched(line[:20], line[20:] + line) == [expected, expected]


class _Silent(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"type": "ADDED", "object": {}}\n'
        raise httpx2.ReadTimeout("nothing came")


async def test_a_watch_that_says_nothing_for_long_has_ended() -> None:
    client = client_of(lambda _: httpx2.Response(200, stream=_Silent()))
    assert [event.type async for event in client.watch(resources.PODS, "1")] == ["ADDED"]


async def test_an_error_in_a_watch_is_raised() -> None:
    line = json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}})
    with pytest.raises(errors.Gone, match="too old"):
        await _watched(f"{line}\n".encode())
