"""The services of a namespace share a number of endpoints: the holders keep theirs, the oldest are next."""

import random
from typing import Any

import pytest

from modelplane.api.meta import API_VERSION
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.controllers.gateway import fleet_routes
from modelplane.controllers.gateway.fleet_routes import Composed, Routes
from modelplane.controllers.interests import OwnerKey
from modelplane.gateway.route_table import Backend, Route

MOST = 10


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a namespace route to ten endpoints."""
    monkeypatch.setattr(fleet_routes, "MOST_IN_NAMESPACE", MOST)


class Bench:
    """Services that select a number of endpoints each."""

    def __init__(self) -> None:
        self.selected: dict[str, int] = {}
        self.blocked: set[str] = set()
        self.settled: list[str] = []
        self.composed: list[str] = []
        self.routes = Routes(self._compose, lambda key: self.settled.append(key.name))

    def _compose(self, key: OwnerKey) -> Composed | None:
        self.composed.append(key.name)
        if key.name in self.blocked:
            return Composed((), Blocked("cannot read it"))
        if key.name not in self.selected:
            return None
        number = self.selected[key.name]
        most = self.routes.share(key).most
        backends = tuple(
            Backend(f"{key.namespace}/e-{at}", (("10.0.0.1", 80),)) for at in range(min(number, most))
        )
        route = Route(f"{key.namespace}/{key.name}", f"/{key.namespace}/{key.name}/", backends)
        requirement = Requirement("endpoints", API_VERSION, "ModelEndpoint", namespace=key.namespace)
        return Composed((requirement,), Composition(routes=(route,), unsatisfied=number > most))

    def changed(self, *names: str, created: str = "2026-01-01T00:00:00Z", namespace: str = "n") -> None:
        for name in names:
            metadata = {"name": name, "namespace": namespace, "creationTimestamp": created}
            item: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "ModelService", "metadata": metadata}
            self.routes.changed(item, is_gone=name not in self.selected)

    async def update(self, **selected: int) -> dict[str, int]:
        """Change what services select; return the endpoints of each route."""
        self.selected |= selected
        self.changed(*selected)
        while await self.routes.update():
            pass
        return {route.name.partition("/")[2]: len(route.backends) for route in self.routes}


async def test_at_a_start_the_oldest_services_have_the_endpoints() -> None:
    bench = Bench()
    bench.selected = {"a-new": 6, "b-old": 6, "c-older": 3}
    bench.changed("a-new", created="2026-03-01T00:00:00Z")
    bench.changed("b-old", created="2026-02-01T00:00:00Z")
    bench.changed("c-older", created="2026-01-01T00:00:00Z")
    assert await bench.update() == {"c-older": 3, "b-old": 6, "a-new": 1}
    assert bench.settled == ["a-new"], "only the one that has less than it selects says so"


async def test_a_service_that_has_endpoints_keeps_them_and_gets_no_more() -> None:
    bench = Bench()
    assert await bench.update(a=1, b=9) == {"a": 1, "b": 9}
    assert await bench.update(a=9) == {"a": 1, "b": 9}, (
        "an older service that grows takes nothing from another"
    )


async def test_what_becomes_free_goes_to_the_oldest_that_waits() -> None:
    bench = Bench()
    await bench.update(a=10)
    bench.selected |= {"young": 4, "old": 4}
    bench.changed("young", created="2026-03-01T00:00:00Z")
    bench.changed("old", created="2026-02-01T00:00:00Z")
    assert await bench.update() == {"a": 10, "young": 0, "old": 0}
    bench.composed, bench.settled = [], []
    assert await bench.update(a=5) == {"a": 5, "old": 4, "young": 1}
    assert (bench.composed, bench.settled) == (["a", "old", "young"], ["old", "young"])
    del bench.selected["a"]
    bench.changed("a")
    assert await bench.update() == {"old": 4, "young": 4}


async def test_a_service_that_no_longer_waits_does_not_hold_up_the_next() -> None:
    bench = Bench()
    await bench.update(a=10, b=3, c=3)
    bench.blocked.add("b")
    assert await bench.update(a=9) == {"a": 9, "b": 0, "c": 1}


async def test_routes_of_an_earlier_version_keep_all_their_endpoints_and_say_so() -> None:
    bench = Bench()
    bench.routes.restore({"n/a": 8, "n/b": 8, "n/gone": 8})
    assert await bench.update(a=8, b=9, new=1) == {"a": 8, "b": 8, "new": 0}
    keys = {name: OwnerKey("ModelService", "n", name) for name in ("a", "b", "new")}
    assert {name: bench.routes.share(key).is_beyond for name, key in keys.items()} == {
        "a": False,
        "b": True,
        "new": True,
    }
    assert {"b", "new"} <= {*bench.settled}
    bench.settled = []
    assert await bench.update(a=1) == {"a": 1, "b": 9, "new": 0}
    assert not bench.routes.share(keys["b"]).is_beyond
    assert "b" in bench.settled, "it no longer keeps more than it may have"


async def test_another_namespace_has_a_number_of_its_own() -> None:
    bench = Bench()
    await bench.update(a=10)
    bench.selected["other"] = 10
    bench.changed("other", namespace="m")
    assert await bench.update() == {"other": 10, "a": 10}


@pytest.mark.parametrize("seed", range(20))
async def test_no_order_of_changes_leads_beyond_the_maximum(seed: int) -> None:
    """A team that changes labels to and fro gains nothing, and no service loses what it still selects."""
    rng, bench = random.Random(seed), Bench()  # noqa: S311 - a test, not a secret
    before: dict[str, int] = {}
    for _ in range(200):
        name = f"s-{rng.randrange(8)}"
        if rng.random() < 0.1:
            bench.selected.pop(name, None)
            bench.changed(name)
            now = await bench.update()
        else:
            now = await bench.update(**{name: rng.choice([0, 1, 2, 7, 12])})
        assert sum(now.values()) <= MOST
        waiting = [each for each, number in bench.selected.items() if number > now[each]]
        assert not waiting or sum(now.values()) == MOST, "what is free is used"
        for each in now.keys() & before.keys():
            assert now[each] >= min(before[each], bench.selected[each])
        before = now


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_comes_in_which_order_all_that_is_free_is_used_in_the_end(seed: int) -> None:
    """A service keeps a part that it got early, so the last endpoints can be of two services."""
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    bench = Bench()
    names = [f"s-{at}" for at in range(6)]
    waiting, endpoints = list(names), 0
    while waiting or endpoints < 4:
        if waiting and (endpoints == 4 or chance.random() < 0.4):
            bench.selected[waiting[0]] = endpoints
            bench.changed(waiting.pop(0))
        else:
            endpoints += 1
            bench.selected = dict.fromkeys(bench.selected, endpoints)
            bench.changed(*bench.selected)
        if chance.random() < 0.5:
            await bench.routes.update()
    for number in (4, 3, 2):
        routed = await bench.update(**dict.fromkeys(names, number))
        assert sum(routed.values()) == min(MOST, number * len(names))
        assert max(routed.values()) <= number
    assert routed["s-0"] == 2, "what became free went to the oldest first"
