import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.route_table import Listener, Route, Table
from modelplane.kube.client import Client
from modelplane.proxy.follower import GatewayFollower, set_listeners
from modelplane.proxy.publication import Channel, build_objects

pytestmark = pytest.mark.virtual_time

AT = ("127.0.0.1", 9000)


def _files(*services: str) -> dict[str, str]:
    routes = tuple(Route(name, f"/{name}/", unavailable="not yet") for name in services)
    return render_files(Table((Listener("front-door", "0.0.0.0", 8080, routes),)))


class Bench:
    """A follower that keeps what it would write."""

    def __init__(self, client: Client, directory: Path) -> None:
        self.client = client
        self.directory = directory
        self.written: Mapping[str, str] = {}
        self.writes = 0
        self.fails: Exception | None = None
        self.follower = self.another()

    def another(self) -> GatewayFollower:
        self.follower = GatewayFollower(
            self.client, "modelplane-system", directory=self.directory, write=self._write, listens=AT
        )
        return self.follower

    def _write(self, _directory: Path, files: Mapping[str, str]) -> bool:
        self.writes += 1
        if self.fails:
            raise self.fails
        changed = self.written != files
        self.written = files
        return changed

    def publish(
        self, files: dict[str, str], version: int, parts: slice = slice(None), private: tuple[str, ...] = ()
    ) -> None:
        """Let the watch bring ConfigMaps, or some of them; the index comes last."""
        found = build_objects(files, "modelplane-system", private=private)
        for manifest in (*found.chunks, found.index)[parts]:
            own = {"uid": manifest["metadata"]["name"], "resourceVersion": str(version)}
            self.follower._config_maps.remember({**manifest, "metadata": {**manifest["metadata"], **own}})

    def publish_private(self, files: dict[str, str], version: int) -> None:
        """Let the watch bring Secrets."""
        found = build_objects(files, "modelplane-gateway", Channel.PRIVATE)
        for manifest in (*found.chunks, found.index):
            own = {"uid": manifest["metadata"]["name"], "resourceVersion": str(version)}
            self.follower._secrets.remember({**manifest, "metadata": {**manifest["metadata"], **own}})

    async def until(self, files: dict[str, str]) -> None:
        async with asyncio.timeout(10):
            while self.written != set_listeners(files, AT):
                await asyncio.sleep(0.01)


@pytest.fixture
def bench(client: Client, tmp_path: Path) -> Bench:
    return Bench(client, tmp_path)


@asynccontextmanager
async def _running(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.follower.run())
    await asyncio.sleep(1)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_published_is_written_and_so_is_every_change(bench: Bench) -> None:
    async with _running(bench):
        bench.publish(_files("a"), 2000)
        await bench.until(_files("a"))
        bench.publish(_files("a", "b"), 2001)
        await bench.until(_files("a", "b"))
    assert bench.follower.problem is None


async def test_what_a_change_left_behind_is_cleaned_up(bench: Bench) -> None:
    async with _running(bench):
        bench.publish(_files("a"), 2000)
        await asyncio.sleep(4)
        assert bench.writes == 1
        await asyncio.sleep(600)
        assert bench.writes == 2


async def test_nothing_published_is_nothing_to_do_and_ready(bench: Bench) -> None:
    assert bench.follower.problem == "the configuration is still being read"
    async with _running(bench):
        assert [bench.writes, bench.follower.problem] == [0, None]


async def test_half_a_configuration_is_not_written_and_not_ready(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with _running(bench):
        bench.publish(_files("a"), 2000, slice(1, None))
        await asyncio.sleep(600)
        assert bench.writes == 0
        assert bench.follower.problem == "1 of 1 parts of the configuration do not exist yet"
        bench.publish(_files("a"), 2001, slice(1))
        await bench.until(_files("a"))
    assert bench.follower.problem is None
    assert caplog.text.count("envoy keeps what it has: 1 of 1 parts") == 1


async def test_a_configuration_that_disappears_stays(bench: Bench) -> None:
    async with _running(bench):
        bench.publish(_files("a"), 2000)
        await bench.until(_files("a"))
        for item in bench.follower._config_maps:
            bench.follower._config_maps._drop(item)
        await asyncio.sleep(600)
        assert (bench.written, bench.follower.problem) == (set_listeners(_files("a"), AT), None)


async def test_after_a_crash_what_was_written_serves_though_no_api_server_answers(
    bench: Bench, plane: Any
) -> None:
    async with _running(bench):
        bench.publish(_files("a"), 2000)
        await bench.until(_files("a"))
    plane.silent = True
    again = bench.another()
    assert again.problem is None
    before = bench.writes
    async with _running(bench):
        assert (again.problem, bench.writes) == (None, before)


async def test_a_write_that_fails_is_tried_again(bench: Bench) -> None:
    bench.fails = OSError("no space left on device")
    async with _running(bench):
        bench.publish(_files("a"), 2000)
        await asyncio.sleep(1)
        assert "no space left" in (bench.follower.problem or "")
        bench.fails = None
        await bench.until(_files("a"))
    assert bench.follower.problem is None


def test_listeners_accept_requests_where_this_envoy_is_told_to() -> None:
    moved = set_listeners(_files("a"), AT)
    [listener] = json.loads(moved["lds.json"])["resources"]
    assert listener["address"] == {"socket_address": {"address": "127.0.0.1", "port_value": 9000}}
    assert set_listeners(_files("a"), ("0.0.0.0", 8080)) == _files("a")


async def test_a_configuration_is_taken_only_with_the_private_files_that_it_names(bench: Bench) -> None:
    keys = {"private/keys.json": "{}"}
    async with _running(bench):
        bench.publish(_files("a"), 2000, private=tuple(keys))
        await asyncio.sleep(1)
        assert bench.writes == 0
        assert "private/keys.json, which does not exist yet" in (bench.follower.problem or "")
        bench.publish_private({**keys, "private/other.json": "{}"}, 2001)
        await bench.until({**_files("a"), **keys})
        bench.publish_private({"private/keys.json": '{"keys":[]}'}, 2002)
        await bench.until({**_files("a"), "private/keys.json": '{"keys":[]}'})
        bench.publish(_files("a"), 2003)
        await bench.until(_files("a"))
    assert bench.follower.problem is None
