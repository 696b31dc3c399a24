"""Endpoints that lead back to a gateway: a request ends after a few hops, and the rest is served."""

from pathlib import Path

import pytest

from modelplane.gateway.envoy.rewrite import MOST_HOPS
from modelplane.gateway.route_table import Backend
from support.envoys import Gateway, engines, free_ports, running_envoy, service

pytestmark = pytest.mark.kubernetes

ALL_TRIES = 3
"""Of one gateway for one request: the first, and two retries."""


def back_to(gateway: Gateway, name: str = "loop", weight: int = 1) -> Backend:
    """Return an endpoint that leads to a service of a gateway."""
    return Backend(f"ml/to-{name}", (("127.0.0.1", gateway.port),), weight, f"/ml/{name}/")


def requests(gateway: Gateway) -> int:
    """Return how many requests a gateway has received."""
    return gateway.stat("http.front-door.downstream_rq_total")


async def refused(gateway: Gateway, headers: dict[str, str] | None = None) -> None:
    async with gateway.client.get(gateway.url("/ml/loop/v1/models"), headers=headers) as response:
        assert (response.status, response.content_type) == (508, "application/json")
        assert (await response.json())["error"] == {
            "message": "the request has passed 4 gateways, because a ModelEndpoint leads back "
            "to a gateway: correct "
            "the url: run kubectl get modelendpoints",
            "type": "invalid_request_error",
            "param": None,
            "code": "loop_detected",
        }


async def test_a_request_that_leads_back_to_its_gateway_ends_after_a_few_hops(gateway: Gateway) -> None:
    async with engines("victim") as (victim,):
        await gateway.apply(service(back_to(gateway), name="loop"), service(victim.backend()))
        before = requests(gateway)
        await refused(gateway)
        assert requests(gateway) - before == MOST_HOPS + 1
        assert (await gateway.get("/ml/qwen/x"))["by"] == "victim"


async def test_a_loop_over_another_region_ends_too(gateway: Gateway, tmp_path: Path) -> None:
    async with running_envoy(tmp_path / "other") as other:
        await gateway.apply(service(back_to(other), name="loop"))
        await other.apply(service(back_to(gateway), name="loop"))
        before = requests(gateway) + requests(other)
        await refused(gateway)
        assert requests(gateway) + requests(other) - before == MOST_HOPS + 1


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param("0", id="a count of its own"),
        pytest.param("x" * 10_000, id="a long value"),
        pytest.param("1", id="a mark"),
        pytest.param("%REQ(host)%", id="a command"),
    ],
)
async def test_a_client_gets_no_further_with_a_header_of_its_own(gateway: Gateway, sent: str) -> None:
    await gateway.apply(service(back_to(gateway), name="loop"))
    before = requests(gateway)
    await refused(gateway, {"modelplane-hops": sent})
    assert requests(gateway) - before <= MOST_HOPS + 1


async def test_retries_on_the_way_are_bounded(gateway: Gateway) -> None:
    gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), prefix="/")
    await gateway.apply(service(back_to(gateway), gone, name="loop"))
    before = requests(gateway)
    for _ in range(10):
        assert await gateway.status("/ml/loop/x") in (503, 508)
    most = sum(ALL_TRIES**hop for hop in range(MOST_HOPS + 1))
    assert requests(gateway) - before <= 10 * most


async def test_a_service_of_another_region_is_served(gateway: Gateway, tmp_path: Path) -> None:
    async with running_envoy(tmp_path / "other") as other, engines("pod") as (pod,):
        hosts = (("127.0.0.1", other.workload_port),)
        replica = Backend("ml/r-1", hosts, prefix="/ml/r-1/")
        behind = service(pod.backend(), name="r-1")
        await other.apply(service(replica), workload=(behind,))
        await gateway.apply(service(back_to(other, "qwen")))
        said = await gateway.get("/ml/qwen/v1/models")
    assert (said["by"], said["path"]) == ("pod", "/v1/models")
