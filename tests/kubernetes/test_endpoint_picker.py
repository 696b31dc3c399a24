"""A real Envoy and the stand-in of the endpoint picker, over the protocol that both have to speak."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from modelplane.gateway.route_table import Backend, EndpointPicker, Route
from modelplane.kubelet.engines import endpoint_picker
from modelplane.kubelet.engines.endpoint_picker import Choice, build_answer
from modelplane.kubelet.pods import probes
from support.envoys import Engine, Gateway, engines, free_ports
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

SPOOFED = {"x-gateway-destination-endpoint": "203.0.113.1:1", "x-prefiller-host-port": "203.0.113.1:1"}
LARGE = "x" * 300_000
"""More than Envoy holds of a body."""


@asynccontextmanager
async def picker(choice: Choice | None) -> AsyncIterator[int]:
    """Serve a picker that always chooses the same, and yield its port."""
    answer = build_answer(lambda: choice)

    async def process(requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Any]:
        async for asked in requests:
            yield answer(asked)

    handler: Any = grpc.stream_stream_rpc_method_handler(
        process,
        endpoint_picker.ProcessingRequest.FromString,
        endpoint_picker.ProcessingResponse.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(endpoint_picker.SERVICE, {endpoint_picker.METHOD: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def pool(*members: Engine, port: int | None, fails_open: bool) -> Route:
    hosts = tuple(("127.0.0.1", each.port) for each in members)
    instances = (("127.0.0.1", port),) if port else ()
    chooses = EndpointPicker("ml/p/picker", instances, fails_open)
    return Route("ml/r", "/ml/r/", (Backend("ml/r/0/p", hosts, prefix="/", picker=chooses),))


async def ask(gateway: Gateway, body: str = "{}") -> tuple[int, dict[str, Any]]:
    url = f"http://127.0.0.1:{gateway.workload_port}/ml/r/v1/completions"
    async with gateway.client.post(url, data=body, headers=SPOOFED) as response:
        return response.status, await response.json() if response.status == 200 else {}


async def test_the_picker_chooses_among_the_pods_of_its_pool(gateway: Gateway) -> None:
    async with engines("a", "b", "foreign") as (a, b, foreign):
        chosen = Choice(f"127.0.0.1:{b.port}", "127.77.0.3:8000")
        async with picker(chosen) as port:
            await gateway.apply(workload=(pool(a, b, port=port, fails_open=False),))
            for body in ("{}", LARGE):
                status, answer = await ask(gateway, body)
                assert (status, answer["by"], answer["path"]) == (200, "b", "/v1/completions")
                assert answer["body"] == body
                assert answer["headers"]["x-prefiller-host-port"] == "127.77.0.3:8000"
        async with picker(Choice(f"127.0.0.1:{foreign.port}")) as port:
            await gateway.apply(workload=(pool(a, b, port=port, fails_open=False),))
            assert await ask(gateway) == (503, {})
            await gateway.apply(workload=(pool(a, port=port, fails_open=True),))
            status, answer = await ask(gateway)
            assert (status, answer["by"]) == (200, "a")
            assert "x-prefiller-host-port" not in answer["headers"]


async def test_without_a_picker_a_pool_fails_open_or_closed(gateway: Gateway) -> None:
    async with engines("a") as (a,):
        for fails_open, status in ((True, 200), (False, 503)):
            await gateway.apply(workload=(pool(a, port=None, fails_open=fails_open),))
            assert (await ask(gateway))[0] == status
        # A process that has just ended: Envoy has sent the body to it.
        await gateway.apply(workload=(pool(a, port=next(free_ports()), fails_open=False),))
        assert (await ask(gateway))[0] == 503


async def test_a_picker_refuses_a_request_that_no_pod_can_take(gateway: Gateway) -> None:
    async with engines("a") as (a,), picker(None) as port:
        await gateway.apply(workload=(pool(a, port=port, fails_open=True),))
        assert (await ask(gateway))[0] == 503


@asynccontextmanager
async def health(answer: bytes) -> AsyncIterator[int]:
    async def check(request: bytes, _context: Any) -> bytes:
        assert request == b"\x0a\x13inference-extension"
        return answer

    handler: Any = grpc.unary_unary_rpc_method_handler(check)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"\x08\x01", None, id="serving"),
        pytest.param(b"\x08\x02", "the server does not report that it is serving", id="not serving"),
        pytest.param(b"", "the server does not report that it is serving", id="unknown"),
    ],
)
async def test_a_grpc_probe_asks_a_real_server(answer: bytes, problem: str | None) -> None:
    async with health(answer) as port, asyncio.timeout(PATIENCE_S):
        action = {"port": port, "service": "inference-extension"}
        assert await probes.find_grpc_problem(action, "127.0.0.1") == problem


async def test_a_grpc_probe_of_another_server_fails() -> None:
    async with engines("http") as (http,), asyncio.timeout(PATIENCE_S):
        assert await probes.find_grpc_problem({"port": http.port}, "127.0.0.1") is not None
