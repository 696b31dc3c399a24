"""Names that resolve to what the gateway alone can reach: refused before a connection is opened.

Everything here is on loopback: an address of it stands for one that is allowed.
"""

import asyncio
from pathlib import Path

import pytest

from modelplane.gateway.destinations import Destinations, parse_networks
from modelplane.gateway.route_table import Backend
from support.envoys import Engine, Gateway, engines, running_envoy, service
from support.name_server import name_server
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

ALLOWED = "127.0.0.9"
FORBIDDEN = "127.0.0.5"
POLICY = Destinations(allowed=parse_networks([ALLOWED]))


def named(engine: Engine) -> Backend:
    return Backend("ml/named", (("provider.example", engine.port),), prefix="/")


async def settled(gateway: Gateway, status: int) -> None:
    """Wait until an answer of the name server is in force."""
    async with asyncio.timeout(PATIENCE_S):
        while await gateway.status("/ml/qwen/x") != status:
            await asyncio.sleep(0.1)


async def refused(gateway: Gateway) -> None:
    async with gateway.client.get(gateway.url("/ml/qwen/x")) as response:
        assert (response.status, response.content_type) == (403, "application/json")
        assert (await response.json())["error"] == {
            "message": "the host of this ModelEndpoint's url resolves to an address that the "
            "gateway is not allowed "
            "to send requests to: use another host, or ask the platform team to allow the address in the "
            "InferenceGateway",
            "type": "invalid_request_error",
            "param": None,
            "code": "destination_refused",
        }


async def test_a_name_that_changes_its_answer_is_refused_from_then_on(tmp_path: Path) -> None:
    async with (
        name_server(ALLOWED) as names,
        running_envoy(tmp_path, names.asks) as gateway,
        engines("a", address="0.0.0.0") as (engine,),
    ):
        await gateway.apply(service(named(engine)), destinations=POLICY)
        await settled(gateway, 200)
        answering = gateway.events("/ml/qwen/x?stream")
        await anext(answering)
        names.addresses = (FORBIDDEN,)
        await settled(gateway, 403)
        await refused(gateway)
        assert await _connections(gateway, FORBIDDEN, engine) == 0
        await answering.aclose()  # type: ignore[attr-defined]  # an async generator, declared by what it yields
        names.addresses = (ALLOWED,)
        await settled(gateway, 200)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((FORBIDDEN,), id="a forbidden address"),
        pytest.param(("::ffff:127.0.0.5",), id="its form in IPv6"),
        pytest.param(("::1",), id="IPv6 loopback"),
        pytest.param(("0.0.0.0",), id="the unspecified address"),
    ],
)
async def test_a_name_of_a_forbidden_address_is_refused(tmp_path: Path, answer: tuple[str, ...]) -> None:
    async with (
        name_server(*answer) as names,
        running_envoy(tmp_path, names.asks) as gateway,
        engines("a", address=None) as (engine,),
    ):
        await gateway.apply(service(named(engine)), destinations=POLICY)
        await settled(gateway, 403)
        await refused(gateway)


async def test_a_second_address_is_not_tried_unchecked(tmp_path: Path) -> None:
    async with (
        name_server(ALLOWED, FORBIDDEN) as names,
        running_envoy(tmp_path, names.asks) as gateway,
        # Nothing listens on the address that is allowed.
        engines("a", address=FORBIDDEN) as (engine,),
    ):
        await gateway.apply(service(named(engine)), destinations=POLICY)
        await settled(gateway, 403)
        assert {await gateway.status("/ml/qwen/x") for _ in range(20)} <= {403, 503}


async def test_an_address_that_got_past_the_check_of_urls_is_refused(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()), destinations=Destinations())
        await refused(gateway)


async def test_a_gateway_of_this_machine_alone_resolves_to_it(tmp_path: Path) -> None:
    async with (
        name_server("127.0.0.1") as names,
        running_envoy(tmp_path, names.asks) as gateway,
        engines("a") as (engine,),
    ):
        await gateway.apply(service(named(engine)), destinations=Destinations(is_local=True))
        await settled(gateway, 200)


async def _connections(gateway: Gateway, address: str, engine: Engine) -> int:
    """Return how many connections an Envoy has open to an address."""
    process = await asyncio.create_subprocess_exec(
        *("grep", "-ci", _in_proc(address, engine.port), f"/proc/{gateway.pid}/net/tcp"),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return int(output)


def _in_proc(address: str, port: int) -> str:
    """Return a remote address as /proc/net/tcp shows it, in state ESTABLISHED."""
    packed = bytes(map(int, reversed(address.split("."))))
    return f"{packed.hex()}:{port:04x} 01"
