"""Hostile requests at a gateway that demands keys: none reaches a service that its key may not use.

Each case says what the gateway answers, and how many requests the backend sees. Whatever the answer, the
backend sees only requests for the permitted service, with the identity of the key, and never the key itself.
The time of an answer tells nothing about a key, because the module compares SHA-256 digests only.
"""

import asyncio
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from modelplane.gateway.module_files.keys import KeyEntry, KeyFile, NamespaceEntry
from modelplane.gateway.module_files.models import ModelFile, ServiceEntry
from modelplane.gateway.route_table import Backend, Front
from support.envoys import Gateway, running_envoy, service
from support.gateway_module import Model, running_model
from support.patience import PATIENCE_S
from support.raw_http import Fields, post_http2, statuses

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

KEY = "sk-hostile"
STREAMS = 8
"""Limit of the key's concurrent streams."""

CHAT = "/ml/qwen/v1/chat/completions"
PERMITTED, FORBIDDEN = "/open", "/forbidden"
"""First segment of a path at the backend, by the service that the request was for."""


def entry(key: str, name: str, services: str, streams: int | None = None) -> KeyEntry:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return KeyEntry(sha256=digest, id=name, namespace="ml", services=(services,), streams=streams)


@dataclass(slots=True)
class Target:
    """The gateway, and the one backend of its two services."""

    gateway: Gateway
    model: Model

    async def send(self, content: bytes) -> list[int]:
        """Send bytes, and return the statuses of the answers."""
        self.model.asked.clear()
        return await statuses(self.gateway.port, content)

    def check(self, seen: int) -> None:
        """Check what reached the backend."""
        asked = self.model.asked
        assert len(asked) == seen, asked
        for each in asked:
            assert each["path"].startswith(f"{PERMITTED}/"), each
            assert each["headers"]["host"] in {"gateway", "gateway,other", "other"}, each
            assert each["headers"].get("transfer-encoding", "chunked") == "chunked", each
            assert "upgrade" not in each["headers"], each
            assert "\r" not in json.dumps(each["headers"]), each
            assert each["headers"]["modelplane-client"] == "ml/hostile", each
            assert KEY not in json.dumps(each), each


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory, module_library: Path) -> AsyncIterator[Target]:
    keys = KeyFile(
        keys=(
            entry(KEY, "ml/hostile", "ml/qwen", streams=STREAMS),
            entry("sk-other", "ml/other", "ml/qwen"),
            entry("sk-settled", "ml/settled", "*"),
        ),
        namespaces={"ml": NamespaceEntry(services=("*",))},
    )
    models = ModelFile(
        services=tuple(ServiceEntry(name=each, created=0) for each in ("ml/qwen", "ml/secret"))
    )
    directory = tmp_path_factory.mktemp("hostile")
    async with (
        running_model() as model,
        running_envoy(directory, library=module_library, front=Front(keys, models)) as gateway,
    ):
        gateway.own_headers = {"x-api-key": "sk-settled"}
        hosts = (("127.0.0.1", model.port),)
        await gateway.apply(
            service(Backend("ml/open", hosts, prefix=f"{PERMITTED}/")),
            service(Backend("ml/forbidden", hosts, prefix=f"{FORBIDDEN}/"), name="secret"),
        )
        yield Target(gateway, model)


def post(path: str = CHAT, *lines: str, body: bytes = b"{}", key: str = KEY, sized: bool = True) -> bytes:
    """Return a request whose connection ends after it."""
    head = [f"POST {path} HTTP/1.1", "host: gateway", "connection: close", "content-type: application/json"]
    head += [f"authorization: Bearer {key}"] if key else []
    head += [f"content-length: {len(body)}"] if sized else []
    return "\r\n".join([*head, *lines, "", ""]).encode("latin-1") + body


def chunked(*lines: str, body: bytes) -> bytes:
    return post(CHAT, "transfer-encoding: chunked", *lines, body=body, sized=False)


HIDDEN = b"GET /ml/secret/x HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer sk-hostile\r\n\r\n"
"""Request that a server would see which reads the one in front of it otherwise."""

WHOLE = b"2\r\n{}\r\n0\r\n\r\n"

FRAMING = {
    "a request of a known length": (post(), [200], 1),
    "a request of chunks": (chunked(body=WHOLE), [200], 1),
    "a length and chunks": (
        post(
            CHAT, "transfer-encoding: chunked", "content-length: 4", body=b"0\r\n\r\n" + HIDDEN, sized=False
        ),
        [400],
        0,
    ),
    "chunks and a length": (
        post(
            CHAT, "content-length: 90", "transfer-encoding: chunked", body=b"0\r\n\r\n" + HIDDEN, sized=False
        ),
        [400],
        0,
    ),
    "two lengths": (post(CHAT, "content-length: 0"), [400], 0),
    "one length twice": (post(CHAT, "content-length: 2"), [400], 0),
    "two lengths in one header": (post(CHAT, "content-length: 2, 0", sized=False), [400], 0),
    "a length with a sign": (post(CHAT, "content-length: +2", sized=False), [400], 0),
    "a negative length": (post(CHAT, "content-length: -2", sized=False), [400], 0),
    "a hexadecimal length": (post(CHAT, "content-length: 0x2", sized=False), [400], 0),
    "a length beyond 64 bits": (post(CHAT, "content-length: 18446744073709551618", sized=False), [400], 0),
    "chunks by another name": (chunked(body=WHOLE).replace(b": chunked", b": xchunked"), [501], 0),
    "chunks and another coding": (chunked(body=WHOLE).replace(b": chunked", b": chunked, gzip"), [501], 0),
    "chunks twice": (chunked("transfer-encoding: chunked", body=WHOLE), [501], 0),
    "chunks after a vertical tab": (chunked(body=WHOLE).replace(b": chunked", b": \x0bchunked"), [400], 0),
    "a coding with a space before the colon": (
        post(CHAT, "transfer-encoding : chunked", body=b"0\r\n\r\n" + HIDDEN),
        [400],
        0,
    ),
    "a folded header, which becomes one line": (post(CHAT, "x-a: b\r\n transfer-encoding: x"), [200], 1),
    "a folded first header": (post().replace(b"\r\nhost", b"\r\n x-a: b\r\nhost"), [400], 0),
    "a carriage return, which is dropped": (post(CHAT, "x-a: b\rtransfer-encoding: x"), [200], 1),
    "a null in a value": (post(CHAT, "x-a: b\0c"), [400], 0),
    "a null in a name": (post(CHAT, "x\0a: b"), [400], 0),
    "a name with a space": (post(CHAT, "x a: b"), [400], 0),
    "a line without a colon": (post(CHAT, "x-a"), [400], 0),
    "a header without a name": (post(CHAT, ": b"), [400], 0),
    "no host": (post().replace(b"host: gateway\r\n", b""), [400], 0),
    "two hosts, which become one": (post(CHAT, "host: other"), [200], 1),
    "extensions of a chunk": (chunked(body=b'2;a="\r\n0\r\n\r\n"\r\n{}\r\n0\r\n\r\n'), [400], 0),
    "a plain extension of a chunk": (chunked(body=b"2;a=b\r\n{}\r\n0;c\r\n\r\n"), [200], 1),
    "a chunk with a sign": (chunked(body=b"+2\r\n{}\r\n0\r\n\r\n"), [400], 0),
    "a chunk with a prefix": (chunked(body=b"0x2\r\n{}\r\n0\r\n\r\n"), [400], 0),
    "a chunk beyond 64 bits": (chunked(body=b"10000000000000002\r\n{}\r\n0\r\n\r\n"), [400], 0),
    "a chunk longer than it says": (chunked(body=b"1\r\n{}\r\n0\r\n\r\n"), [400], 0),
    "HTTP/1.0": (post().replace(b"HTTP/1.1", b"HTTP/1.0"), [426], 0),
    "HTTP/0.9": (b"GET /ml/qwen/x\r\n\r\n", [426], 0),
    "HTTP/1.2": (post().replace(b"HTTP/1.1", b"HTTP/1.2"), [426], 0),
    "a method with a control character": (post().replace(b"POST", b"PO\x01T"), [400], 0),
    "a second request without a key": (
        post().replace(b"connection: close\r\n", b"") + post(key=""),
        [200, 401],
        1,
    ),
    "a second request for another service": (
        post().replace(b"connection: close\r\n", b"") + post("/ml/secret/x"),
        [200, 403],
        1,
    ),
    "more after a request": (post() + HIDDEN, [200], 1),
    "another protocol": (post(CHAT, "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__"), [200], 1),
    "another protocol, asked for": (
        post(CHAT, "upgrade: h2c").replace(b"connection: close", b"connection: upgrade, close"),
        [200],
        1,
    ),
    "a tunnel": (
        b"CONNECT /ml/secret/x HTTP/1.1\r\nhost: gateway\r\nx-api-key: sk-hostile\r\n\r\n",
        [400],
        0,
    ),
    "more headers than the gateway takes": (
        post(CHAT, *(f"x-{number}: a" for number in range(200))),
        [431],
        0,
    ),
    "headers of 100 KB": (post(CHAT, f"x-a: {'a' * 100_000}"), [431], 0),
}
"""What is sent, the statuses of the answers, and the number of requests at the backend."""


async def test_a_request_that_another_server_could_read_otherwise_is_refused(target: Target) -> None:
    found = {}
    for name, (content, _, _) in FRAMING.items():
        answers = await target.send(content)
        found[name] = (answers, len(target.model.asked))
        target.check(len(target.model.asked))
    assert found == {name: (answers, seen) for name, (_, answers, seen) in FRAMING.items()}


PATHS = {
    "/ml/secret/x": 403,
    "/ml/secret": 403,
    "/ml/secret?x": 403,
    "/ml/secret/../qwen/x": 403,
    "/ml/qwen/../secret/x": 400,
    "/ml/qwen/..%2fsecret/x": 400,
    "/ml/qwen/..;/secret/x": 400,
    "/ml/qwen/%2e%2e/secret/x": 400,
    "/ml/qwen\\..\\secret/x": 403,
    "//ml/secret/x": 404,
    "/ml//secret/x": 404,
    "/./ml/secret/x": 403,
    "/ML/SECRET/x": 403,
    "/ml/%73ecret/x": 403,
    "/ml%2fsecret/x": 403,
    "/ml/qwen%2f..%2fsecret/x": 403,
    "/ml/secret;a=b/x": 403,
    "/ml/secret%00/x": 403,
    "/ml/qwenx/x": 403,
    "/v1/../ml/secret/x": 400,
    "/v1/chat/completions/../../../ml/secret/x": 400,
    "http://gateway/ml/secret/x": 403,
    "http://gateway/ml/qwen/../secret/x": 400,
    "*": 400,
    "ml/secret/x": 400,
    "/ml/secret/x#": 400,
    "/ml/qwen#/../../secret/x": 400,
    "/ml/sécret/x": 400,
}
"""Status by path; the backend sees no such request."""


async def test_a_path_leads_to_no_other_service(target: Target) -> None:
    found = {}
    for path in PATHS:
        (found[path],) = await target.send(post(path))
        target.check(0)
    assert found == PATHS


KEYS = {
    "none": ((), 401),
    "in both headers": ((f"authorization: Bearer {KEY}", f"x-api-key: {KEY}"), 200),
    "two different ones": ((f"authorization: Bearer {KEY}", "x-api-key: sk-other"), 400),
    "two different ones, the other way round": (("x-api-key: sk-other", f"authorization: Bearer {KEY}"), 400),
    "one header twice": ((f"authorization: Bearer {KEY}", f"authorization: Bearer {KEY}"), 401),
    "one header twice with different keys": ((f"x-api-key: {KEY}", "x-api-key: sk-other"), 400),
    "two in one value": ((f"authorization: Bearer {KEY}, Bearer sk-other",), 401),
    "with more behind it": ((f"x-api-key: {KEY}x",), 401),
    "without its end": ((f"x-api-key: {KEY[:-1]}",), 401),
    "in upper case": ((f"x-api-key: {KEY.upper()}",), 401),
    "its digest": ((f"x-api-key: {hashlib.sha256(KEY.encode()).hexdigest()}",), 401),
    "another scheme": ((f"authorization: Basic {KEY}",), 401),
    "in a cookie": ((f"cookie: authorization=Bearer {KEY}",), 401),
    "in another gateway's header": ((f"x-goog-api-key: {KEY}",), 401),
    "with an underscore": ((f"x_api_key: {KEY}",), 401),
    "of 50 KB": ((f"x-api-key: {'k' * 50_000}",), 401),
    "that is not UTF-8": (("x-api-key: \xff\xfe",), 401),
}
"""Headers of the key, and the status."""


async def test_only_one_key_in_its_place_admits_a_request(target: Target) -> None:
    found = {}
    for name, (lines, _) in KEYS.items():
        (found[name],) = await target.send(post(CHAT, *lines, key=""))
        target.check(1 if found[name] == 200 else 0)
    assert found == {name: status for name, (_, status) in KEYS.items()}


SPOOFED = {
    "the key's id": ("modelplane-client: web/spoofed",),
    "the key's id in upper case": ("Modelplane-CLIENT: web/spoofed",),
    "the key's id twice": ("modelplane-client: web/spoofed", "modelplane-client: web/spoofed"),
    "the key's id with underscores": ("modelplane_client: web/spoofed",),
    "a header that is to be dropped behind the gateway": ("connection: close, modelplane-client",),
    "a header of the gateway's own": ("x-modelplane-host: web/spoofed", "x-modelplane-prefix: /forbidden/"),
    "one of Envoy's": ("x-envoy-original-path: web/spoofed", "x-envoy-upstream-rq-timeout-ms: 1"),
    "one of Envoy's with underscores": ("x_envoy_original_path: web/spoofed",),
}


async def test_nobody_names_himself(target: Target) -> None:
    for lines in SPOOFED.values():
        assert await target.send(post(CHAT, *lines)) == [200], lines
        target.check(1)
        (asked,) = target.model.asked
        assert "web/spoofed" not in json.dumps(asked), asked
        assert asked["path"] == f"{PERMITTED}/v1/chat/completions"
    trailers = b"2\r\n{}\r\n0\r\nmodelplane-client: web/spoofed\r\nauthorization: Bearer x\r\n\r\n"
    assert await target.send(chunked(body=trailers)) == [200]
    target.check(1)
    assert "web/spoofed" not in json.dumps(target.model.asked)


def head(*more: tuple[str, str], path: str = CHAT) -> Fields:
    fields = [(":method", "POST"), (":path", path), (":authority", "gateway"), (":scheme", "http")]
    return [*fields, ("x-api-key", KEY), ("content-type", "application/json"), *more]


HTTP2 = {
    "a request": (head(), 200),
    "a header of a connection": (head(("connection", "close")), 0),
    "chunks": (head(("transfer-encoding", "chunked")), 0),
    "another protocol": (head(("upgrade", "h2c")), 0),
    "a kept connection": (head(("keep-alive", "timeout=5")), 0),
    "a proxy's connection": (head(("proxy-connection", "keep-alive")), 0),
    "codings of a transfer": (head(("te", "gzip")), 0),
    "a length that is too short": (head(("content-length", "1")), 0),
    "a length that is too long": (head(("content-length", "9")), 0),
    "two lengths": (head(("content-length", "2"), ("content-length", "3")), 0),
    "a name in upper case": (head(("X-Upper", "a")), 0),
    "a line break in a value": (head(("x-a", "b\r\nmodelplane-client: web/spoofed")), 0),
    "a line break in a name": (head(("x-a: b\r\nx-b", "c")), 0),
    "a null in a value": (head(("x-a", "b\0")), 0),
    "a colon in a name": (head(("x-a:b", "c")), 0),
    "two paths": ([*head()[:2], (":path", "/ml/secret/x"), *head()[2:]], 0),
    "a path after headers": ([*head(), (":path", "/ml/secret/x")], 0),
    "no path": ([each for each in head() if each[0] != ":path"], 0),
    "an empty path": (head(path=""), 0),
    "a path with a space": (head(path="/ml/qwen/x HTTP/1.1"), 0),
    "a path with a line break": (head(path="/ml/qwen/x HTTP/1.1\r\nx-a: b\r\n\r\n"), 0),
    "an unknown pseudo-header": ([(":x", "a"), *head()], 0),
    "a method with a space": ([(":method", "POST /ml/secret/x"), *head()[1:]], 0),
    "a host beside the authority": (head(("host", "other")), 200),
    "a path to another service": (head(path="/ml/qwen/../secret/x"), 400),
    "another service": (head(path="/ml/secret/x"), 403),
    "the key's id": (head(("modelplane-client", "web/spoofed")), 200),
}
"""Fields of a request over HTTP/2, and the status; 0 for a stream that is reset."""


async def test_over_http_2_nothing_passes_that_http_1_1_could_read_otherwise(target: Target) -> None:
    target.model.asked.clear()
    port = target.gateway.port
    found = await asyncio.gather(*(post_http2(port, fields, b"{}") for fields, _ in HTTP2.values()))
    target.check(found.count(200))
    assert "spoofed" not in json.dumps(target.model.asked)
    assert dict(zip(HTTP2, found, strict=True)) == {name: status for name, (_, status) in HTTP2.items()}


async def test_a_loop_ends_also_where_the_module_tells_it(target: Target) -> None:
    named = b'{"model":"ml/qwen"}'
    for hops, status in (("111", 200), ("1111", 508), ("11111", 508)):
        for path, body in ((CHAT, b"{}"), (ONE_URL, named)):
            answers = await target.send(post(path, f"modelplane-hops: {hops}", body=body))
            assert (answers, len(target.model.asked)) == ([status], int(status == 200)), (hops, path)


DEEP = 200_000
ONE_URL = "/v1/chat/completions"

BODIES = {
    "a model": (b'{"model":"ml/qwen"}', 200),
    "a model that the key may not use": (b'{"model":"ml/secret"}', 403),
    "a model twice": (b'{"model":"ml/qwen","model":"ml/secret"}', 400),
    "a model twice, once escaped": (b'{"model":"ml/qwen","m\\u006fdel":"ml/secret"}', 400),
    "a stream twice": (b'{"model":"ml/qwen","stream":true,"stream":false}', 400),
    "deep brackets without an end": (b"[" * DEEP, 400),
    "a model that is a path": (b'{"model":"ml/qwen/../secret"}', 403),
    "a model with a line break": (b'{"model":"ml/qwen\\r\\nx-a: b"}', 403),
    "a long model": (json.dumps({"model": "x" * 100_000}).encode(), 400),
    "no UTF-8": (b'{"model":"\xff"}', 400),
    "a byte order mark": (b'\xef\xbb\xbf{"model":"ml/qwen"}', 400),
    "more behind it": (b'{"model":"ml/qwen"}{"model":"ml/secret"}', 400),
}


async def test_a_body_has_one_reading(target: Target) -> None:
    found = {}
    for name, (body, _) in BODIES.items():
        (found[name],) = await target.send(post(ONE_URL, body=body))
        target.check(1 if found[name] == 200 else 0)
    assert found == {name: status for name, (_, status) in BODIES.items()}


async def test_deep_brackets_overflow_no_stack(target: Target) -> None:
    deep = b'{"model":"ml/qwen","x":' + b"[" * DEEP + b"]" * DEEP + b"}"
    assert len(await target.send(post(ONE_URL, body=deep))) == 1
    # Whatever the backend makes of it, it gets it whole.
    assert len(target.model.asked[0]["body"]) == len(deep)
    assert await target.send(post()) == [200]


MEGABYTE = 1 << 20


async def test_a_huge_body_is_refused_however_it_is_framed(target: Target) -> None:
    memory = psutil.Process(target.gateway.pid).memory_info
    before = memory().rss
    told = post(ONE_URL, f"content-length: {1 << 40}", body=b"{", sized=False)
    assert await target.send(told) == [413]
    piece = f"{MEGABYTE:x}\r\n".encode() + b"x" * MEGABYTE + b"\r\n"
    untold = post(ONE_URL, "transfer-encoding: chunked", body=piece * 40, sized=False)
    assert await target.send(untold) == [413]
    target.check(0)
    assert memory().rss - before < 100 * MEGABYTE


async def test_a_compressed_bomb_is_not_opened(target: Target) -> None:
    memory = psutil.Process(target.gateway.pid).memory_info
    bomb = gzip.compress(bytes(64 * MEGABYTE), 1)
    before = memory().rss
    for path, expected in ((ONE_URL, [415]), (CHAT, [415]), ("/ml/qwen/v1/other", [200])):
        request = post(path, "content-encoding: gzip", body=bomb)
        if expected == [200]:
            request = request.replace(b"application/json", b"application/octet-stream")
        assert await target.send(request) == expected, path
        target.check(expected.count(200))
    assert memory().rss - before < 32 * MEGABYTE


async def test_slow_bodies_hold_no_more_than_the_streams_of_their_key(target: Target) -> None:
    opening = post(ONE_URL, "content-length: 1000", body=b"{", sized=False)
    held = [await asyncio.open_connection("127.0.0.1", target.gateway.port) for _ in range(STREAMS)]
    for _, writer in held:
        writer.write(opening)
    async with asyncio.timeout(PATIENCE_S):
        while await target.send(post()) != [429]:
            await asyncio.sleep(0.02)
    assert await target.send(post(key="sk-other")) == [200]
    for _, writer in held:
        writer.close()
    async with asyncio.timeout(PATIENCE_S):
        while await target.send(post()) != [200]:
            await asyncio.sleep(0.02)
