"""How the companion of an Envoy begins and ends."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from modelplane.host.errors import LocalError
from modelplane.proxy import admin, envoy_bootstrap
from modelplane.proxy.companion import Counting, Gateway
from modelplane.proxy.follower import GatewayFollower

pytestmark = pytest.mark.virtual_time


class Follower:
    """A follower that only says whether it runs."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.problem: str | None = None

    async def run(self) -> None:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.running.clear()


class Counted:
    """A counting that counts nothing."""

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def finish(self) -> None:
        pass


class Envoy:
    """What an Envoy says of itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prepared = True
        self.problem: str | None = None
        self.requests: int | None = 0
        monkeypatch.setattr(envoy_bootstrap, "is_prepared", lambda _directory: self.prepared)
        monkeypatch.setattr(admin, "find_obstacle", lambda _directory: self.problem)
        monkeypatch.setattr(admin, "count_requests", self._requests)

    def _requests(self, _directory: Path, listener: str) -> int:
        if self.requests is None or listener != "front-door":
            raise LocalError("nobody listens")
        return self.requests


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Envoy:
    return Envoy(monkeypatch)


def _gateway(follower: Follower) -> Gateway:
    return Gateway(cast("GatewayFollower", follower), cast("Counting", Counted()), Path(), 0.05)


async def _ended(task: asyncio.Task[None]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


async def test_nothing_is_written_before_envoy_has_prepared_the_directory(proxy: Envoy) -> None:
    proxy.prepared = False
    follower = Follower()
    running = asyncio.create_task(_gateway(follower).run())
    await asyncio.sleep(60)
    assert not follower.running.is_set()
    proxy.prepared = True
    await asyncio.wait_for(follower.running.wait(), 5)
    running.cancel()
    await _ended(running)


async def test_it_is_ready_when_both_the_configuration_and_envoy_are(proxy: Envoy) -> None:
    follower = Follower()
    gateway = _gateway(follower)
    assert gateway.problem is None
    proxy.problem = "Envoy is not ready: the state is INITIALIZING"
    assert gateway.problem == "Envoy is not ready: the state is INITIALIZING"
    follower.problem = "the configuration is still being read"
    assert gateway.problem == "the configuration is still being read"


async def test_it_ends_when_nobody_is_being_answered_and_follows_until_then(proxy: Envoy) -> None:
    follower = Follower()
    gateway = _gateway(follower)
    running = asyncio.create_task(gateway.run())
    await follower.running.wait()
    proxy.requests = 1
    running.cancel()
    await asyncio.sleep(60)
    assert (running.done(), follower.running.is_set()) == (False, True)
    assert gateway.problem == "the gateway is about to end"
    proxy.requests = 0
    await _ended(running)
    assert not follower.running.is_set()


async def test_an_envoy_that_is_gone_keeps_nobody_waiting(proxy: Envoy) -> None:
    follower = Follower()
    running = asyncio.create_task(_gateway(follower).run())
    await follower.running.wait()
    proxy.requests = None
    running.cancel()
    await _ended(running)


async def test_a_second_signal_ends_it_at_once(proxy: Envoy) -> None:
    follower = Follower()
    running = asyncio.create_task(_gateway(follower).run())
    await follower.running.wait()
    proxy.requests = 1
    running.cancel()
    await asyncio.sleep(60)
    assert not running.done()
    running.cancel()
    await _ended(running)
