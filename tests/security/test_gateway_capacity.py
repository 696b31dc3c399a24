"""More endpoints, connections and memory than the gateway has room for: the others are still served."""

from dataclasses import replace
from pathlib import Path

import pytest

from modelplane.gateway.table import Backend, Route
from support.envoys import EVENTS, Engine, Gateway, engines, service

pytestmark = pytest.mark.kubernetes

ENDPOINTS = 1000


def fleet(engine: Engine) -> tuple[Route, ...]:
    """Return services with an endpoint each, of addresses of their own."""
    return tuple(
        service(
            Backend(f"ml/e-{number}", ((f"127.1.{number // 250}.{number % 250 + 1}", engine.port),), 1, "/"),
            name=f"s-{number}",
        )
        for number in range(ENDPOINTS)
    )


async def test_a_thousand_endpoints_with_addresses_are_served(gateway: Gateway) -> None:
    async with engines("a", "b", address="0.0.0.0") as (a, b):
        routes = fleet(a)
        await gateway.apply(*routes)
        for number in (0, 500, 999):
            assert (await gateway.get(f"/ml/s-{number}/x"))["by"] == "a"
        watching = [link for link in _descriptors(gateway.pid) if "inotify" in link]
        assert len(watching) < 10
        connected = gateway.stat("cluster.front-door/ml/e-999.upstream_cx_total")
        await gateway.apply(*fleet(b)[:1], *routes[1:])
        assert (await gateway.get("/ml/s-0/x"))["by"] == "b"
        # The connection of an unchanged backend stays.
        assert (await gateway.get("/ml/s-999/x"))["by"] == "a"
        assert gateway.stat("cluster.front-door/ml/e-999.upstream_cx_total") == connected


async def test_a_stream_survives_a_change_of_its_backends_instances(gateway: Gateway) -> None:
    async with engines("a", "b") as (a, b):
        one = a.backend()
        both = replace(one, hosts=(*one.hosts, *b.backend().hosts))
        await gateway.apply(service(one))
        seen = []
        async for event in gateway.events("/ml/qwen/x?stream"):
            seen.append(event)
            if len(seen) in (3, 8):
                await gateway.apply(service(both if len(seen) == 3 else replace(one, hosts=both.hosts[1:])))
    assert seen == [f"data: {number}" for number in range(EVENTS)]


def _descriptors(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/fd")
    return [str(each.readlink()) for each in folder.iterdir() if each.is_symlink()]
