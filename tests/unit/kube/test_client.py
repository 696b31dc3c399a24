import asyncio
from typing import Any

import httpx2
import pytest

from modelplane.controllers import fleet_resources
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from support.api_server import POD, Chunks, Recorder, client_of


async def test_an_apply_says_who_applies_and_refuses_unknown_fields() -> None:
    server = Recorder(POD)
    assert await client_of(server).apply(POD, subresource="status", force=False, dry_run=True) == POD
    assert server.seen == (
        "PATCH",
        "/api/v1/namespaces/n/pods/p/status",
        {"fieldManager": "tester", "fieldValidation": "Strict", "force": "false", "dryRun": "All"},
        POD,
    )
    assert server.request.headers["content-type"] == "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [("merge", "application/merge-patch+json"), ("strategic", "application/strategic-merge-patch+json")],
)
async def test_a_patch_says_which_kind_it_is(kind: Any, content_type: str) -> None:
    server = Recorder(POD)
    await client_of(server).patch(resources.PODS, "p", {"a": 1}, "n", kind=kind)
    assert server.seen == ("PATCH", "/api/v1/namespaces/n/pods/p", {"fieldManager": "tester"}, {"a": 1})
    assert server.request.headers["content-type"] == content_type


async def test_only_so_many_requests_are_under_way_and_the_others_wait_without_a_time_out() -> None:
    under_way, most = 0, 0

    async def answer(_request: httpx2.Request) -> httpx2.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.2)
        under_way -= 1
        return httpx2.Response(200, json=POD)

    http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(answer))
    # In seven rounds, the last ones wait for longer than this.
    client = Client(http, "tester", timeout_s=1)
    await asyncio.gather(*(client.apply(POD) for _ in range(200)))
    assert most == 32


async def test_a_deletion_names_the_very_object() -> None:
    server = Recorder({"kind": "Status"})
    await client_of(server).delete(
        resources.PODS, "p", "n", uid="u", grace_period_s=3, propagation="Foreground"
    )
    body = {"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 3}
    assert server.seen == ("DELETE", "/api/v1/namespaces/n/pods/p", {}, body)


async def test_a_client_that_was_closed_is_unreachable() -> None:
    client = client_of(Recorder(POD))
    await client.close()
    with pytest.raises(errors.Unreachable, match="closed"):
        await client.get(resources.PODS, "p", "n")


async def test_closing_ends_the_requests_under_way() -> None:
    arrived = asyncio.Event()

    left = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    client = Client(httpx2.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False), "tester", 0.3)
    request = asyncio.create_task(client.get(resources.PODS, "p", "n"))
    await arrived.wait()
    await client.close()
    with pytest.raises(errors.Unreachable):
        await asyncio.wait_for(request, 5)
    await asyncio.wait_for(left.wait(), 5)
    server.close()


async def test_a_log_is_read_by_its_lines_the_last_without_an_end_too() -> None:
    client = client_of(lambda _: httpx2.Response(200, stream=Chunks(b"on", b"e\n\ntw", b"o")))
    assert [line async for line in client.read_lines("/api/v1/x/log", {"follow": "true"})] == [
        b"one",
        b"",
        b"two",
    ]


async def test_a_log_that_is_refused_is_an_error() -> None:
    status = {"reason": "BadRequest", "message": 'container "engine" is waiting to start'}
    client = client_of(lambda _: httpx2.Response(400, json=status))
    with pytest.raises(errors.Invalid, match="is waiting to start"):
        await anext(client.read_lines("/api/v1/x/log", {}))


def _discovery(answers: dict[str, Any]) -> Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        found = answers.get(request.url.path)
        return httpx2.Response(404, text="not found") if found is None else httpx2.Response(200, json=found)

    return client_of(answer)


_OTHER = {"versions": [{"groupVersion": "apps/v1"}]}
_PRESENT = {"versions": [{"groupVersion": "modelplane.ai/v1alpha1"}]}
_PREFIX = "/apis/modelplane.ai/v1alpha1"


@pytest.mark.parametrize(
    ("answers", "served"),
    [
        pytest.param(
            {
                _PREFIX: {
                    "kind": "APIResourceList",
                    "resources": [{"name": "modelcaches", "kind": "ModelCache", "namespaced": True}],
                }
            },
            True,
            id="the kind is listed",
        ),
        pytest.param(
            {
                _PREFIX: {
                    "kind": "APIResourceList",
                    "resources": [{"name": "others", "kind": "Other", "namespaced": True}],
                }
            },
            False,
            id="its group is there without it",
        ),
        pytest.param(
            {"/apis": {"kind": "APIGroupList", "groups": [_OTHER]}}, False, id="its group is not listed"
        ),
    ],
)
async def test_a_server_says_itself_which_kinds_it_serves(answers: dict[str, Any], served: bool) -> None:
    assert await _discovery(answers).is_served(fleet_resources.MODEL_CACHES) is served


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({}, id="nothing but 404, as a load balancer says"),
        pytest.param({"/apis": {"kind": "APIGroupList", "groups": [_PRESENT]}}, id="it contradicts itself"),
    ],
)
async def test_no_clear_answer_is_not_an_absent_kind(answers: dict[str, Any]) -> None:
    with pytest.raises(errors.ApiError):
        await _discovery(answers).is_served(fleet_resources.MODEL_CACHES)


async def test_a_list_in_pages_is_of_one_version_and_complete() -> None:
    asked: list[dict[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(dict(request.url.params))
        metadata = {"resourceVersion": "7", "continue": "rest" if len(asked) == 1 else ""}
        items = [{"metadata": {"name": str(len(asked))}}]
        return httpx2.Response(200, json={"kind": "List", "metadata": metadata, "items": items})

    pages = client_of(answer).list_pages(resources.PODS, labels="a=b", resource_version="7", limit=1)
    assert [item["metadata"]["name"] async for page in pages for item in page.items] == ["1", "2"]
    assert asked == [
        {"labelSelector": "a=b", "limit": "1", "resourceVersion": "7", "resourceVersionMatch": "Exact"},
        {"labelSelector": "a=b", "limit": "1", "continue": "rest"},
    ]
