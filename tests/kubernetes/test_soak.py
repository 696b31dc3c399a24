"""Endurance of a real Envoy with the gateway's module: every kind of change under load, for a time.

``MODELPLANE_SOAK_SECONDS`` is the time; ``make soak`` takes an hour. ``MODELPLANE_SOAK_RECORD`` names a file
for one line of JSON with what was done.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.route_table import Front
from modelplane.proxy import admin
from modelplane.proxy.envoy_directory import USAGE_LOG, Rotation
from support.envoys import Gateway, running_envoy
from support.patience import PATIENCE_S
from support.soak_churn import STEADY, STREAMS, Churn
from support.soak_load import Engines, Http1, Load, Pool, running_engines

pytestmark = pytest.mark.kubernetes

SECONDS = float(os.environ.get("MODELPLANE_SOAK_SECONDS", "20"))
RECORD = os.environ.get("MODELPLANE_SOAK_RECORD", "")

PAUSE_S = 0.2
"""Time between two changes."""

GROWTH_MIB = 24
"""Memory that the last quarter may have more than the second: the allocators of two workers vary so much."""

HELD = {"stream": True, "model": "ml/steady"}

KINDS = ("HTTP/1.1", "HTTP/1.1, stream", "HTTP/2", "HTTP/2, stream")
ANSWERS = 50
"""Number of answers that each kind of request has at least."""


@dataclass(slots=True)
class Watch:
    """Memory and open files of a process, over time."""

    process: psutil.Process
    memory: list[float] = field(default_factory=list)
    """MiB."""
    files: list[float] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            self.memory.append(self.process.memory_info().rss / (1 << 20))
            self.files.append(self.process.num_fds())
            await asyncio.sleep(1)

    def quarter(self, values: list[float], number: int) -> float:
        size = max(len(values) // 4, 1)
        return statistics.median(values[(number - 1) * size : number * size])


@pytest.fixture
async def gateway(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    front = Front(keys=KeyFile())
    async with running_envoy(
        tmp_path, library=module_library, front=front, usage_log=USAGE_LOG, descriptors=20_000
    ) as running:
        await running.client.close()
        yield running


def in_use(gateway: Gateway) -> dict[str, int]:
    """Return Envoy's gauges of requests and connections in progress."""
    pattern = r"(front-door[.]downstream_(rq|cx)_active|upstream_(rq|cx)_active|upstream_rq_pending_active)$"
    return {name: value for name, value in admin.read_stats(gateway.directory, pattern).items() if value}


async def until_idle(gateway: Gateway) -> dict[str, int]:
    """Wait until nothing is in progress, and return what still is after a time."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := in_use(gateway)) and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    return found


async def test_no_request_fails_and_nothing_grows_while_everything_changes(gateway: Gateway) -> None:
    async with running_engines(3) as engines:
        authority = gateway.directory / "authority.pem"
        services = ("ml/steady", "ml/exchanged")
        load = Load(gateway.port, authority, Pool(STEADY), Pool(*services), Pool(*services))
        churn = Churn(gateway.directory, gateway.port, engines.ports, load)
        await churn.begin()
        assert await until_idle(gateway) == {}
        watch = Watch(psutil.Process(gateway.pid))
        files_before = watch.process.num_fds()
        async with watched(gateway, watch), load.flowing():
            changing = asyncio.create_task(churn.run(PAUSE_S))
            await asyncio.wait([changing], timeout=SECONDS)
            with suppress(TimeoutError):  # the failure tells what was answered
                async with asyncio.timeout(PATIENCE_S):
                    while not changing.done() and min(load.answers[kind] for kind in KINDS) <= ANSWERS:
                        await asyncio.sleep(PAUSE_S)
            load.over.set()
            await changing
        left = await until_idle(gateway)
        files_after = watch.process.num_fds()
        given_back = await streams_given_back(load, engines)
    told = said(load, churn, watch) | {
        "open files": {"before": files_before, "most": max(watch.files), "after": files_after},
        "in use after": left,
    }
    record(told)
    assert load.failures == []
    assert len([kind for kind in load.answers if "left" not in kind]) >= 4, told
    assert all(load.answers[kind] > ANSWERS for kind in KINDS)
    assert len(churn.certificates) > 1
    assert left == {}
    assert files_after <= files_before + 2, told
    assert watch.quarter(watch.memory, 4) - watch.quarter(watch.memory, 2) < GROWTH_MIB, told
    assert given_back == ([200] * STREAMS, 429)


def said(load: Load, churn: Churn, watch: Watch) -> dict[str, Any]:
    """Return what was done, and the memory that it took."""
    warm = watch.memory[len(watch.memory) // 4 :]
    return {
        "seconds": SECONDS,
        "answers": dict(load.answers),
        "failures": load.failures[:20],
        "changes": dict(churn.changes),
        "slowest change s": round(churn.slowest_s, 3),
        "certificates": len(churn.certificates),
        "memory MiB": {
            "second quarter": round(watch.quarter(watch.memory, 2), 1),
            "last quarter": round(watch.quarter(watch.memory, 4), 1),
            "slope per hour": round(slope(warm) * 3600, 1),
        },
    }


def record(told: dict[str, Any]) -> None:
    if RECORD:
        with Path(RECORD).open("a") as file:
            file.write(json.dumps(told) + "\n")


@asynccontextmanager
async def watched(gateway: Gateway, watch: Watch) -> AsyncIterator[None]:
    """Watch a process and rotate its usage records meanwhile."""
    tasks = [asyncio.create_task(each) for each in (watch.run(), Rotation(gateway.directory, kept=1).run())]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def streams_given_back(load: Load, engines: Engines) -> tuple[list[int], int]:
    """Return the statuses of as many streams as a key may have at once, and of one more."""
    async with Http1.connected(load) as client:
        path = "/ml/steady/v1/chat/completions"
        holding = [asyncio.create_task(client.post(path, HELD, STEADY, hold=True)) for _ in range(STREAMS)]
        async with asyncio.timeout(PATIENCE_S):
            while engines.holding < STREAMS:
                await asyncio.sleep(0.02)
        status, _ = await client.post(path, HELD, STEADY)
        engines.held.set()
        return [each for each, _ in await asyncio.gather(*holding)], status


def slope(values: list[float]) -> float:
    """Return the growth of values that were taken at equal distances, per step, by least squares."""
    if len(values) < 2:
        return 0.0
    return statistics.linear_regression(range(len(values)), values).slope
