"""Whether the gateways of serving stacks answer, with servers in their place."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.clusters import gateway_probes
from modelplane.controllers.clusters.gateway_probes import GatewayAnswers
from modelplane.controllers.interests import OwnerKey
from modelplane.kube.informer import Informer

OURS = {"modelplane.ai/resource": "gateway"}
ANSWER = b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n"
EAST = OwnerKey("InferenceCluster", "", "east")


def cluster(serves: bool = False) -> dict[str, Any]:
    condition = {"type": "BackendReady", "status": str(serves)}
    return {"metadata": {"name": "east"}, "status": {"conditions": [condition]}}


def gateway(port: int, labels: dict[str, str], **listener: Any) -> dict[str, Any]:
    """Return a Gateway that reports everything as in order."""
    return {
        "metadata": {"name": "inference-gateway", "labels": labels},
        "spec": {"listeners": [{"name": "http", "port": port, **listener}]},
        "status": {
            "addresses": [{"value": "127.0.0.1"}],
            "conditions": [{"type": "Programmed", "status": "True"}],
        },
    }


@asynccontextmanager
async def proxy(answer: bytes | None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve an answer, or none at all; yield the port, and the lines that were asked."""
    asked: list[bytes] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        over.set()
        server.close()


def answers(
    found: tuple[dict[str, Any], ...] | Unknown, woken: list[OwnerKey], serves: bool = False
) -> GatewayAnswers:
    def find(requirement: Requirement) -> tuple[dict[str, Any], ...] | Unknown:
        assert requirement.cluster == "east"
        return found

    return GatewayAnswers(cast("Informer", [cluster(serves)]), find, woken.append)


async def test_a_gateway_answers_once_its_proxy_has_the_route() -> None:
    woken: list[OwnerKey] = []
    async with proxy(ANSWER) as (port, asked):
        looking = answers((gateway(port, OURS),), woken)
        assert looking.of("east") == "no request was sent through the gateway yet"
        await looking.look()
        await looking.look()
    assert looking.of("east") is None
    assert woken == [EAST], "it is woken once for each change"
    assert asked[0] == b"GET /modelplane-system/ready HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(b"HTTP/1.1 404 Not Found\r\n\r\n", "is 404, not 302", id="a listener without the route"),
        pytest.param(b"HTTP/1.1 500 Error\r\n\r\n", "is 500, not 302", id="hooks that fail"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", "is 200, not 302", id="another server"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "no HTTP response", id="another protocol"),
        pytest.param(b"x" * 4096, "limit", id="no line at all"),
        pytest.param(b"", "no HTTP response", id="a closed connection"),
        pytest.param(None, "no answer within", id="no answer"),
    ],
)
async def test_another_answer_is_none(
    answer: bytes | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_probes, "_TIMEOUT_S", 0.2)
    async with proxy(answer) as (port, _):
        looking = answers((gateway(port, OURS),), [])
        await looking.look()
    assert said in str(looking.of("east"))


async def test_a_gateway_that_only_reports_listeners_does_not_answer() -> None:
    async with proxy(ANSWER) as (port, _):
        pass  # nothing listens any more
    looking = answers((gateway(port, OURS),), [])
    await looking.look()
    assert "Connect call failed" in str(looking.of("east"))


@pytest.mark.parametrize(
    ("found", "serves"),
    [
        pytest.param((), False, id="no gateway"),
        pytest.param(Unknown("connection refused"), False, id="unreadable"),
        pytest.param((gateway(1, {}),), False, id="a gateway of others"),
        pytest.param((gateway(1, OURS, name="mutual-tls"),), False, id="mutual TLS only"),
    ],
)
async def test_other_gateways_are_not_asked(found: Any, serves: bool) -> None:
    looking = answers(found, [], serves)
    await looking.look()
    assert looking.of("east") is None


async def test_a_cluster_that_serves_is_not_asked() -> None:
    async with proxy(ANSWER) as (port, asked):
        await answers((gateway(port, OURS),), [], serves=True).look()
    assert asked == []
