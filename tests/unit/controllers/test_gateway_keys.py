"""Keys of the gateway: which are made, kept and required."""

import base64
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelplane.compose.composition import Unknown
from modelplane.controllers.gateway.gateway_admission import KeyRing, NamedKeys
from modelplane.gateway import tokens
from modelplane.gateway.tokens import NONE, REQUIRED, SETTLED, GatewayKeys
from modelplane.gateway.usage.load import Load
from modelplane.kube import errors


class Bench:
    """A control plane with one Secret."""

    def __init__(self, replicas: int = 0) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.secret: dict[str, Any] | None = None
        self.fails: Exception | None = None
        self.told = 0
        self.load = Load()
        self.replicas = replicas
        self.ring = self.started()

    def started(self) -> KeyRing:
        """Return a ring, as after a start of the controllers."""
        kubeconfigs = SimpleNamespace(secret=lambda _name: self.secret, remember=self._remember)
        return KeyRing(
            cast("Any", SimpleNamespace(apply=self._apply)),
            cast("Any", kubeconfigs),
            cast("Any", {"ModelReplica": range(self.replicas)}),
            self._changed,
            cast("Any", self._proxy()),
            now=lambda: self.now,
        )

    def _proxy(self) -> SimpleNamespace:
        async def load() -> Load:
            return self.load

        return SimpleNamespace(load=load)

    async def look(self) -> GatewayKeys:
        await self.ring.look(cast("Any", self._proxy()))
        return self.ring.known

    async def _apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        if self.fails:
            raise self.fails
        return manifest

    def _remember(self, secret: dict[str, Any]) -> None:
        self.secret = secret

    def _changed(self) -> None:
        self.told += 1

    def add(self, number: int) -> None:
        assert self.secret is not None
        self.secret["data"][str(number)] = base64.b64encode(bytes([number]) * 32).decode()


async def test_the_first_key_of_a_new_fleet_is_required_at_once() -> None:
    bench = Bench()
    keys = await bench.look()
    assert (list(keys.keys), keys.required, bench.told) == ([1], 1, 1)
    assert len(keys.keys[1]) == 32
    assert bench.secret is not None
    assert tokens.read(bench.secret) == keys
    assert (await bench.look(), bench.told) == (keys, 1)


async def test_clusters_of_an_earlier_version_require_it_once_every_gateway_sends_it() -> None:
    bench = Bench(replicas=3)
    assert (await bench.look()).required == 0
    bench.now += 2 * SETTLED
    assert (await bench.look()).required == 0, "no gateway has sent it"
    bench.ring.sent(bench.ring.known)
    bench.now += SETTLED - timedelta(seconds=1)
    bench.ring.sent(bench.ring.known)
    assert (await bench.look()).required == 0, "a connection may be left that lacks it"
    bench.now += timedelta(seconds=1)
    bench.load = Load(problem="a gateway does not answer")
    assert (await bench.look()).required == 0, "that gateway may have an earlier configuration"
    bench.load = Load()
    assert (await bench.look()).required == 1
    assert bench.secret is not None
    assert bench.secret["metadata"]["annotations"] == {REQUIRED: "1"}


async def test_a_new_key_replaces_the_former_one_without_a_gap() -> None:
    bench = Bench()
    await bench.look()
    bench.add(2)
    keys = await bench.look()
    assert (list(keys.keys), keys.required) == ([1, 2], 1)
    bench.ring.sent(keys)
    bench.now += SETTLED
    assert (await bench.look()).required == 2
    assert list(bench.ring.known.keys) == [1, 2], "the former key is sent until an operator removes it"
    assert bench.secret is not None
    del bench.secret["data"]["1"]
    keys = await bench.look()
    assert (list(keys.keys), keys.required) == ([2], 2)


async def test_an_operator_turns_the_requirement_off() -> None:
    bench = Bench()
    await bench.look()
    assert bench.secret is not None
    bench.secret["metadata"]["annotations"] = {REQUIRED: NONE}
    keys = await bench.look()
    assert (list(keys.keys), keys.required) == ([1], 0)
    bench.ring.sent(keys)
    bench.now += SETTLED
    assert (await bench.look()).required == 0


async def test_a_secret_that_was_deleted_is_written_as_it_was() -> None:
    bench = Bench()
    keys = await bench.look()
    bench.secret = None
    assert await bench.look() == keys
    assert bench.secret is not None
    assert tokens.read(bench.secret) == keys


async def test_a_secret_without_a_key_changes_nothing() -> None:
    bench = Bench()
    keys = await bench.look()
    bench.secret = {"metadata": {"name": tokens.SECRET}, "data": {}}
    assert await bench.look() == keys
    assert bench.secret["data"] == {}


async def test_a_key_that_cannot_be_written_is_not_sent() -> None:
    bench = Bench()
    bench.fails = errors.Forbidden(403, "Forbidden", "no")
    assert await bench.look() == GatewayKeys()
    assert bench.told == 0


async def test_controllers_that_start_take_up_the_keys_before_any_route() -> None:
    bench = Bench()
    keys = await bench.look()
    bench.ring = bench.started()
    await bench.ring.start()
    assert bench.ring.current() == keys


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        pytest.param(Unknown("loading", loading=True), None, id="being read"),
        pytest.param(Unknown("no answer"), None, id="not readable"),
        pytest.param(Unknown("no", forbidden=True), GatewayKeys(), id="forbidden"),
        pytest.param((), GatewayKeys(), id="missing"),
    ],
)
def test_a_reader_waits_until_the_keys_are_known(found: Any, keys: GatewayKeys | None) -> None:
    assert NamedKeys(lambda _requirement: found, lambda: None).current() == keys


def test_a_reader_keeps_the_keys_that_it_knows() -> None:
    found: Any = (tokens.build_manifest(GatewayKeys({1: b"k" * 32}, 1), "modelplane-system"),)
    told: list[bool] = []
    keys = NamedKeys(lambda _requirement: found, lambda: told.append(True))
    known = keys.current()
    assert known == GatewayKeys({1: b"k" * 32}, 1)
    for found in ((), Unknown("no answer")):  # noqa: B007  the function above reads it
        assert keys.current() == known
    assert (keys.sent(known), keys.sent(known), len(told)) == (True, False, 1)
