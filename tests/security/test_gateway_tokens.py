"""The gateway of a cluster serves the fleet's gateway only, and no endpoint of a team leads to it.

Everything here is on loopback: an address of it stands for a public one.
"""

import asyncio
from pathlib import Path

import pytest

from modelplane.gateway import tokens
from modelplane.gateway.destinations import Destinations, parse_networks
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table, Token
from modelplane.gateway.tokens import HEADERS, GatewayKeys
from support.envoys import Engine, Gateway, engines, running_envoy, service
from support.name_server import name_server
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

KEYS = GatewayKeys({1: b"k" * 32}, required=1)
REPLICA = "team-b/bobs-1"
PATH = f"/{REPLICA}/"


def of_cluster(engine: Engine, keys: GatewayKeys = KEYS) -> Route:
    """Return the route of a replica at the gateway of its cluster."""
    return Route(REPLICA, PATH, (engine.backend(),), token=tokens.find_required(keys, REPLICA))


def to_cluster(gateway: Gateway, name: str, prefix: str, **options: object) -> Backend:
    """Return the backend of an endpoint that leads to the gateway of the cluster."""
    hosts = (("127.0.0.1", gateway.workload_port),)
    return Backend(name, hosts, prefix=prefix, **options)  # type: ignore[arg-type]  # options of any kind


def by_key(*routes: Route, keys: GatewayKeys = KEYS) -> tuple[Route, ...]:
    return tokens.add_tokens(routes, keys)


def of_replica(gateway: Gateway) -> Route:
    backend = to_cluster(gateway, REPLICA, PATH, tokens=())
    return Route("team-b/bobs", "/team-b/bobs/", (backend,))


async def settled(gateway: Gateway, status: int) -> None:
    """Wait until an answer of the name server is in force."""
    async with asyncio.timeout(PATIENCE_S):
        while await gateway.status("/ml/qwen/x") != status:
            await asyncio.sleep(0.1)


async def direct(gateway: Gateway, headers: dict[str, str]) -> int:
    url = f"http://127.0.0.1:{gateway.workload_port}{PATH}x"
    async with gateway.client.get(url, headers=headers) as response:
        return response.status


async def test_a_request_from_elsewhere_has_no_route(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(*by_key(of_replica(gateway)), workload=(of_cluster(engine),))
        seen = await gateway.get("/team-b/bobs/x")
        assert seen["path"] == "/x"
        assert not set(HEADERS) & set(seen["headers"]), "no engine gets the token"
        assert await direct(gateway, {}) == 404
        assert await direct(gateway, {HEADERS[1]: "guess"}) == 404
        assert await direct(gateway, {HEADERS[0]: _token().value}) == 404, "in the header of another key"
        assert await direct(gateway, {_token().header: _token().value}) == 200


def _token() -> Token:
    token = tokens.find_required(KEYS, REPLICA)
    assert token is not None
    return token


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param(PATH, id="to the path of another team's replica"),
        pytest.param("/team-a/mine-1/../../team-b/bobs-1/", id="by dots"),
        pytest.param("//team-b/bobs-1/", id="by a double slash"),
    ],
)
@pytest.mark.parametrize("is_sent", [False, True], ids=["without a token", "with its own token"])
async def test_an_endpoint_of_another_team_does_not_reach_a_replica(
    gateway: Gateway, prefix: str, *, is_sent: bool
) -> None:
    own = () if is_sent else None
    evil = Route("team-a/evil", "/team-a/evil/", (to_cluster(gateway, "team-a/mine-1", prefix, tokens=own),))
    async with engines("a") as (engine,):
        await gateway.apply(*by_key(evil, of_replica(gateway)), workload=(of_cluster(engine),))
        assert await gateway.status("/team-b/bobs/x") == 200
        async with gateway.client.get(gateway.url("/team-a/evil/x")) as response:
            assert response.status in (400, 404)


async def test_the_header_of_a_client_is_not_passed_on(gateway: Gateway) -> None:
    guess = dict.fromkeys(HEADERS, "guess")
    async with engines("a") as (engine,):
        outside = Route("ml/outside", "/ml/outside/", (engine.backend(),))
        await gateway.apply(*by_key(outside, of_replica(gateway)), workload=(of_cluster(engine),))
        seen = await gateway.get("/ml/outside/x", headers=guess)
        assert not set(HEADERS) & set(seen["headers"])
        assert (await gateway.get("/team-b/bobs/x", headers=guess))["by"] == "a"


@pytest.mark.parametrize("required", [1, 2], ids=["the former key", "the new key"])
async def test_while_keys_are_replaced_both_are_sent(gateway: Gateway, required: int) -> None:
    keys = GatewayKeys({1: b"k" * 32, 2: b"n" * 32}, required)
    async with engines("a") as (engine,):
        await gateway.apply(*by_key(of_replica(gateway), keys=keys), workload=(of_cluster(engine, keys),))
        assert await gateway.status("/team-b/bobs/x") == 200


CLUSTER = "127.0.0.7"
"""Address of a cluster's gateway."""


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(CLUSTER, id="a name of the gateway"),
        pytest.param(f"::ffff:{CLUSTER}", id="its form in IPv6"),
    ],
)
async def test_a_name_that_resolves_to_the_gateway_of_a_cluster_is_refused(
    tmp_path: Path, answer: str
) -> None:
    """Checked for each attempt, so the answer for the name may change at any time."""
    async with (
        name_server("127.0.0.9") as names,
        running_envoy(tmp_path, names.asks) as gateway,
        engines("a", address="0.0.0.0") as (engine,),
    ):
        policy = Destinations(
            allowed=parse_networks(["127.0.0.0/8"]),
            clusters=(f"{CLUSTER}:{engine.port}",),
            refuses_internal=True,
        )
        named = Backend("ml/named", (("provider.example", engine.port),), prefix="/")
        replica = Backend(REPLICA, ((CLUSTER, engine.port),), prefix="/", tokens=())
        other = Route("team-b/bobs", "/team-b/bobs/", (replica,))
        await gateway.apply(*by_key(service(named), other), destinations=policy)
        await settled(gateway, 200)
        names.addresses = (answer,)
        await settled(gateway, 403)
        async with gateway.client.get(gateway.url("/ml/qwen/x")) as response:
            assert (await response.json())["error"]["code"] == "destination_refused"
        assert (await gateway.get("/team-b/bobs/x"))["by"] == "a", "a replica is served there"


@pytest.mark.parametrize("answer", ["10.96.0.1", "192.168.0.1", "fd00::1"])
async def test_a_name_that_resolves_into_the_gateways_cluster_is_refused(tmp_path: Path, answer: str) -> None:
    async with name_server(answer) as names, running_envoy(tmp_path, names.asks) as gateway:
        named = Backend("ml/named", (("provider.example", 80),), prefix="/")
        await gateway.apply(service(named), destinations=Destinations(refuses_internal=True))
        await settled(gateway, 403)


async def test_without_keys_a_replica_is_served_as_before(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        workload = Route(REPLICA, PATH, (engine.backend(),))
        policy = Destinations(is_local=True, clusters=(f"127.0.0.1:{gateway.workload_port}",))
        await gateway.apply(of_replica(gateway), workload=(workload,), destinations=policy)
        assert await gateway.status("/team-b/bobs/x") == 200


def test_tokens_are_in_private_files_only() -> None:
    """Routes of the fleet's gateway and its listeners are published in ConfigMaps."""
    backend = Backend(REPLICA, (("192.0.2.1", 80),), prefix=PATH, tokens=())
    routes = by_key(Route("team-b/bobs", "/team-b/bobs/", (backend,)))
    written = render_files(Table((Listener("front-door", "127.0.0.1", 80, routes, front=Front()),)))
    assert [path for path, content in written.items() if _token().value in content] == ["cds.json"]
    assert _token().value not in repr(routes)
    assert str(KEYS.keys[1]) not in repr(KEYS)
