import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from lightkube.config import kubeconfig, models

from modelplane.kube import errors, resources
from modelplane.kube.client import Client, Fence, WatchEvent

Handler = Callable[[httpx2.Request], httpx2.Response]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "resourceVersion": "7"}}


def _client(handler: Handler) -> Client:
    transport = httpx2.MockTransport(handler)
    return Client(httpx2.AsyncClient(base_url="http://server", transport=transport), "tester")


class _Recorder:
    """Answers every request with one object, and keeps the request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.request = request
        return httpx2.Response(200, json=self.answer)

    @property
    def seen(self) -> tuple[str, str, dict[str, str], Any]:
        content = self.request.content
        return (
            self.request.method,
            self.request.url.path,
            dict(self.request.url.params),
            json.loads(content) if content else None,
        )


async def test_an_apply_says_who_applies_and_refuses_unknown_fields() -> None:
    server = _Recorder(POD)
    assert await _client(server).apply(POD, subresource="status", force=False, dry_run=True) == POD
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
    server = _Recorder(POD)
    await _client(server).patch(resources.PODS, "p", {"a": 1}, "n", kind=kind)
    assert server.seen == ("PATCH", "/api/v1/namespaces/n/pods/p", {"fieldManager": "tester"}, {"a": 1})
    assert server.request.headers["content-type"] == content_type


async def test_only_so_many_requests_are_under_way_and_the_others_wait_without_a_time_out() -> None:
    under_way, most = 0, 0

    async def answer(_request: httpx2.Request) -> httpx2.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return httpx2.Response(200, json=POD)

    http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(answer))
    client = Client(http, "tester", timeout_s=0.02)
    await asyncio.gather(*(client.apply(POD) for _ in range(200)))
    assert most == 32


async def test_a_deletion_names_the_very_object() -> None:
    server = _Recorder({"kind": "Status"})
    await _client(server).delete(
        resources.PODS, "p", "n", uid="u", grace_period_s=3, propagation="Foreground"
    )
    body = {"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 3}
    assert server.seen == ("DELETE", "/api/v1/namespaces/n/pods/p", {}, body)


async def test_items_of_a_list_know_their_kind() -> None:
    server = _Recorder({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {}}]})
    answer = await _client(server).list(resources.PODS, "n", labels="a=b", fields="c=d", metadata_only=True)
    assert answer.items == ({"metadata": {}, "apiVersion": "v1", "kind": "Pod"},)
    assert answer.resource_version == "9"
    assert server.seen[1:3] == ("/api/v1/namespaces/n/pods", {"labelSelector": "a=b", "fieldSelector": "c=d"})
    assert server.request.headers["accept"].startswith("application/json;as=PartialObjectMetadataList")


async def test_a_list_of_nothing_may_be_null() -> None:
    server = _Recorder({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": None})
    assert (await _client(server).list(resources.PODS)).items == ()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(400, errors.Invalid, id="a bad request"),
        pytest.param(401, errors.Forbidden, id="an identity that is not known"),
        pytest.param(403, errors.Forbidden, id="an identity that may not"),
        pytest.param(404, errors.NotFound, id="nothing there"),
        pytest.param(409, errors.Conflict, id="another writer was first"),
        pytest.param(410, errors.Gone, id="a version too old"),
        pytest.param(422, errors.Invalid, id="a manifest that is refused"),
        pytest.param(500, errors.ApiError, id="a server in trouble"),
    ],
)
async def test_failures_are_told_apart(code: int, error: type[errors.ApiError]) -> None:
    status = {"kind": "Status", "reason": "Why", "message": "because"}
    with pytest.raises(errors.ApiError) as raised:
        await _client(lambda _: httpx2.Response(code, json=status)).apply(POD)
    assert type(raised.value) is error
    assert (raised.value.code, raised.value.reason, str(raised.value)) == (code, "Why", "because")


async def test_a_failure_that_is_no_status_is_told_in_its_own_words() -> None:
    with pytest.raises(errors.ApiError, match="no healthy upstream"):
        await _client(lambda _: httpx2.Response(503, text="no healthy upstream")).apply(POD)


async def test_of_a_page_that_a_proxy_answers_only_the_beginning_is_told() -> None:
    page = "<html>\n  <title>502 Bad Gateway</title>\n" + "<p>sorry</p>\n" * 10_000
    with pytest.raises(errors.ApiError) as raised:
        await _client(lambda _: httpx2.Response(502, text=page)).apply(POD)
    assert str(raised.value) == ("<html> <title>502 Bad Gateway</title> " + "<p>sorry</p> " * 100)[:200]


@pytest.mark.parametrize(
    "answer", [pytest.param("<html>", id="a page"), pytest.param('{"a": 1}', id="some other API")]
)
async def test_an_answer_of_something_else_than_kubernetes_is_a_failure(answer: str) -> None:
    client = _client(lambda _: httpx2.Response(200, text=answer))
    with pytest.raises(errors.ApiError, match="answers no Kubernetes object"):
        await client.list(resources.PODS)


async def test_whatever_keeps_a_request_from_being_answered_is_unreachable() -> None:
    def fail(_request: httpx2.Request) -> httpx2.Response:
        raise RuntimeError("the exec plugin failed")

    with pytest.raises(errors.Unreachable, match="the exec plugin failed"):
        await _client(fail).get(resources.PODS, "p", "n")


async def test_a_client_that_was_closed_is_unreachable() -> None:
    client = _client(_Recorder(POD))
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


class _Wire:
    """A server that keeps every byte, and answers each complete request with the same object."""

    def __init__(self) -> None:
        self.received = b""
        self.authorizations: list[str] = []
        self.connections = 0
        self.taken = ""
        """The only identity that is let in; any, where none is named."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.received += head
                fields = dict(line.split(": ", 1) for line in head.decode().lower().splitlines()[1:] if line)
                self.authorizations.append(fields.get("authorization", ""))
                self.received += await reader.readexactly(int(fields.get("content-length", 0)))
                body = json.dumps(POD).encode()
                status = self._status(self.authorizations[-1])
                writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()
        await writer.wait_closed()
        self.connections -= 1

    def _status(self, authorization: str) -> str:
        return "200 OK" if self.taken in ("", authorization) else "401 Unauthorized"


@contextlib.asynccontextmanager
async def _listening(wire: _Wire) -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
        while wire.connections:
            await asyncio.sleep(0.001)
    finally:
        server.close()


def _fenced(address: tuple[str, int], fence: Fence) -> Client:
    http = httpx2.AsyncClient(base_url=f"http://{address[0]}:{address[1]}", trust_env=False)
    return Client(http, "tester", fence=fence)


async def test_behind_a_closed_fence_nothing_is_sent_but_reads() -> None:
    wire = _Wire()
    why = ""
    async with _listening(wire) as address, _fenced(address, lambda: why) as client:
        await client.apply(POD)
        sent = wire.received
        assert b"PATCH" in sent
        why = "somebody else leads"
        writes = (
            client.apply(POD),
            client.create(POD),
            client.patch(resources.PODS, "p", {}, "n"),
            client.delete(resources.PODS, "p", "n"),
        )
        for write in writes:
            with pytest.raises(errors.Fenced, match="somebody else leads"):
                await write
        assert wire.received == sent
        assert await client.get(resources.PODS, "p", "n") == POD


async def test_a_fence_that_closes_half_way_leaves_a_request_that_no_server_acts_on() -> None:
    wire = _Wire()
    reasons = iter(["", "too late"])
    async with _listening(wire) as address, _fenced(address, lambda: next(reasons)) as client:
        with pytest.raises(errors.Fenced, match="too late"):
            await client.create(POD)
    assert wire.received.endswith(b"\r\n\r\n"), "the headers, and nothing of the body"


async def test_a_pod_reads_its_token_again_when_it_is_no_longer_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = _Wire()
    wire.taken = "bearer old"
    async with _listening(wire) as (host, port):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        # Only TLS is left out of what a pod has.
        monkeypatch.setattr(
            kubeconfig, "Cluster", lambda server, **_: models.Cluster(server.replace("https", "http"))
        )
        (tmp_path / "namespace").write_text("n")
        (tmp_path / "token").write_text("old")
        async with Client.in_cluster(account=tmp_path) as client:
            await client.get(resources.PODS, "p", "n")
            (tmp_path / "token").write_text("new")
            wire.taken = "bearer new"
            await client.get(resources.PODS, "p", "n")
    assert wire.authorizations == ["bearer old", "bearer old", "bearer new"]


@pytest.mark.parametrize(
    ("files", "host", "cause"),
    [
        pytest.param((), "10.0.0.1", "No such file or directory: '.*token'", id="no service account"),
        pytest.param(
            ("token", "namespace", "ca.crt"), "", "there is no KUBERNETES_SERVICE_HOST", id="no pod at all"
        ),
    ],
)
def test_where_there_is_no_service_account_the_error_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], host: str, cause: str
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"cannot use a pod's service account: .*{cause}"):
        Client.in_cluster(account=tmp_path)


class _Chunks(httpx2.AsyncByteStream):
    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


async def _watched(*chunks: bytes) -> list[WatchEvent]:
    client = _client(lambda _: httpx2.Response(200, stream=_Chunks(*chunks)))
    return [event async for event in client.watch(resources.PODS, "1")]


async def test_an_event_ends_where_its_line_does_and_nowhere_else() -> None:
    event = json.dumps({"type": "ADDED", "object": {"note": "next\x85line\u2028here"}}, ensure_ascii=False)
    line = f"{event}\n".encode()
    expected = WatchEvent("ADDED", {"note": "next\x85line\u2028here", "apiVersion": "v1", "kind": "Pod"})
    assert await _watched(line[:20], line[20:] + line) == [expected, expected]


async def test_a_log_is_read_by_its_lines_the_last_without_an_end_too() -> None:
    client = _client(lambda _: httpx2.Response(200, stream=_Chunks(b"on", b"e\n\ntw", b"o")))
    assert [line async for line in client.lines("/api/v1/x/log", {"follow": "true"})] == [b"one", b"", b"two"]


async def test_a_log_that_is_refused_is_an_error() -> None:
    status = {"reason": "BadRequest", "message": 'container "engine" is waiting to start'}
    client = _client(lambda _: httpx2.Response(400, json=status))
    with pytest.raises(errors.Invalid, match="is waiting to start"):
        await anext(client.lines("/api/v1/x/log", {}))


class _Silent(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"type": "ADDED", "object": {}}\n'
        raise httpx2.ReadTimeout("nothing came")


async def test_a_watch_that_says_nothing_for_long_has_ended() -> None:
    client = _client(lambda _: httpx2.Response(200, stream=_Silent()))
    assert [event.type async for event in client.watch(resources.PODS, "1")] == ["ADDED"]


async def test_an_error_in_a_watch_is_raised() -> None:
    line = json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}})
    with pytest.raises(errors.Gone, match="too old"):
        await _watched(f"{line}\n".encode())


def _discovery(answers: dict[str, Any]) -> Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        found = answers.get(request.url.path)
        return httpx2.Response(404, text="not found") if found is None else httpx2.Response(200, json=found)

    return _client(answer)


_OTHER = {"versions": [{"groupVersion": "apps/v1"}]}
_PRESENT = {"versions": [{"groupVersion": "modelplane.ai/v1alpha1"}]}
_PREFIX = "/apis/modelplane.ai/v1alpha1"


@pytest.mark.parametrize(
    ("answers", "served"),
    [
        pytest.param(
            {_PREFIX: {"kind": "APIResourceList", "resources": [{"name": "modelcaches"}]}},
            True,
            id="the kind is listed",
        ),
        pytest.param(
            {_PREFIX: {"kind": "APIResourceList", "resources": [{"name": "others"}]}},
            False,
            id="its group is there without it",
        ),
        pytest.param(
            {"/apis": {"kind": "APIGroupList", "groups": [_OTHER]}}, False, id="its group is not listed"
        ),
    ],
)
async def test_a_server_says_itself_which_kinds_it_serves(answers: dict[str, Any], served: bool) -> None:
    assert await _discovery(answers).serves(resources.MODEL_CACHES) is served


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({}, id="nothing but 404, as a load balancer says"),
        pytest.param({"/apis": {"kind": "APIGroupList", "groups": [_PRESENT]}}, id="it contradicts itself"),
    ],
)
async def test_no_clear_answer_is_not_an_absent_kind(answers: dict[str, Any]) -> None:
    with pytest.raises(errors.ApiError):
        await _discovery(answers).serves(resources.MODEL_CACHES)


def _kubeconfig(**user: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }


_NO_PEM = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    "kubeconfig",
    [
        pytest.param({}, id="nothing in it"),
        pytest.param(_kubeconfig() | {"current-context": "other"}, id="a context that is not there"),
        pytest.param(_kubeconfig() | {"users": []}, id="a user that is not there"),
        pytest.param(
            _kubeconfig(**{"client-certificate-data": _NO_PEM, "client-key-data": _NO_PEM}),
            id="a certificate that is none",
        ),
        pytest.param(_kubeconfig(**{"client-certificate": "/nowhere"}), id="a file that is not there"),
    ],
)
def test_an_unusable_kubeconfig_is_one_kind_of_error(kubeconfig: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cannot use the kubeconfig: .+"):
        Client.from_kubeconfig(kubeconfig)
