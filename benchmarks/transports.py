"""Compare HTTP clients as the controllers' connection to many clusters.

    python benchmarks/transports.py --clusters 1000 --rounds 3 --json

Prints one JSON line; progress goes to standard error. One real API server stands for all the clusters, each
with a URL and connections of its own, over TLS (`member_clusters.py`). Each client runs in a process of its
own, and all of them run at the same time, so that what else the machine does meets all alike:

- `ours`: `modelplane.kube.client`, HTTP/2.
- `aiohttp`: the same client over aiohttp's pool of HTTP/1.1 connections.
- `aiohttp-alone`: aiohttp and msgspec without httpx in between, so the least that a client over it can take,
  and with asyncio's TLS buffers cut to those of ours.
- `lightkube`: lightkube's own client with generic resources, HTTP/1.1 of httpx.

A round starts them anew, in another order. One client after the other opens its watches of every cluster:
three, as on a cluster on which nothing is deployed, or `--watches 9`, as on one with replicas. Then the
clients apply objects spread over the clusters, in ten turns of `--applies` each, fifty at a time. Then
`--events` objects change that all clients watch, ten times. The figures are medians of turns and rounds.
Of each client:

- `kb_per_cluster`: the memory of a connected cluster.
- `connected_seconds`, `connected_cpu_ms`: until every watch has had its first event, and the processor time
  for each cluster.
- `first_event_ms`: from opening a watch to its first event, the median and the 99th percentile.
- `apply_cpu_ms`, `applied_seconds`: the processor time of an apply, and how long a turn took.
- `event_cpu_ms`, `event_ms`: the processor time of an event, and its delay after the change, the median and
  the 99th percentile.

Processor time is that of the client's process.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from fleet import apply_all, control_plane, free_port, say, since
from http_clients import CLIENTS, Cluster
from member_clusters import TEAM, Members, member_clusters, names

from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes.control_plane import Pki

OPENED_AT_A_TIME = 16
APPLIED_AT_A_TIME = 50
TURNS = 10


class Worker:
    """One client's process: does what the lines on its standard input say, and prints figures."""

    def __init__(self, name: str, members: Members, clusters: int, watches: int) -> None:
        self._make = partial(CLIENTS[name])
        self._members = members
        self._names = names(clusters)
        self._watches = watches
        self._clusters: list[Cluster] = []
        self._watching: list[asyncio.Task[None]] = []
        self._first: list[float] = []
        self._delays: list[float] = []
        self._changed = asyncio.Event()

    async def connect(self) -> dict[str, Any]:
        """Open every watch."""
        self._clusters.append(self._make(self._members.kubeconfig(self._names[0])))  # imports what it needs
        await self._open(self._clusters[0])
        before, began, used = memory(), time.monotonic(), time.process_time()
        turns = asyncio.Semaphore(OPENED_AT_A_TIME)

        async def one(name: str) -> None:
            async with turns:
                cluster = self._make(self._members.kubeconfig(name))
                self._clusters.append(cluster)
                await self._open(cluster)

        self._first.clear()
        await asyncio.gather(*map(one, self._names[1:]))
        elapsed, used, count = since(began), time.process_time() - used, len(self._names) - 1
        return {
            "connected_seconds": elapsed,
            "connected_cpu_ms": used / count * 1e3,
            "first_event_ms": spread(self._first),
            "kb_per_cluster": (memory() - before) / count / 1e3,
        }

    async def _open(self, cluster: Cluster) -> None:
        opened = [asyncio.get_running_loop().create_future() for _ in range(self._watches)]
        self._watching += [
            asyncio.create_task(self._watch(cluster, f"watched-{number}", future))
            for number, future in enumerate(opened)
        ]
        await asyncio.gather(*opened)

    async def _watch(self, cluster: Cluster, name: str, opened: asyncio.Future[None]) -> None:
        began = time.monotonic()
        try:
            async for found in cluster.watch(name):
                if opened.done():
                    self._delays.append(time.monotonic() - float(found["data"]["at"]))
                    self._changed.set()
                else:
                    self._first.append(time.monotonic() - began)
                    opened.set_result(None)
            raise EOFError(f"a watch of {name} ended")  # noqa: TRY301 - told as every other failure is
        except Exception as error:
            if opened.done():
                say(f"{type(error).__name__}: {error}")
                raise
            opened.set_exception(error)

    async def apply(self, first: int, count: int) -> dict[str, Any]:
        """Apply so many objects, spread over the clusters."""
        turns = asyncio.Semaphore(APPLIED_AT_A_TIME)

        async def one(number: int) -> None:
            async with turns:
                await self._clusters[number % len(self._clusters)].apply(config_map("applied", str(number)))

        began, used = time.monotonic(), time.process_time()
        await asyncio.gather(*map(one, range(first, first + count)))
        return {
            "apply_cpu_ms": (time.process_time() - used) / count * 1e3,
            "applied_seconds": since(began),
        }

    async def events(self, count: int) -> dict[str, Any]:
        """Return once so many events have come."""
        used = time.process_time()
        print("{}", flush=True)
        while len(self._delays) < count:
            self._changed.clear()
            await self._changed.wait()
        used = time.process_time() - used
        delays, self._delays = self._delays, []
        return {"event_cpu_ms": used / count * 1e3, "event_ms": spread(delays)}

    async def end(self) -> dict[str, Any]:
        """Close everything."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for cluster in self._clusters:
            await cluster.close()
        return {}


def memory() -> int:
    """Return how many bytes this process has for itself."""
    gc.collect()
    return int(psutil.Process().memory_full_info().uss)


def spread(seconds: list[float]) -> list[float]:
    """Return the median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return [round(ordered[int(len(ordered) * part)] * 1e3, 1) for part in (0.5, 0.99)]


def config_map(name: str, at: str, namespace: str = TEAM) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"at": at},
    }


async def work(name: str) -> None:
    """Be one client's process."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    setting = json.loads(await reader.readline())
    worker = Worker(name, Members(**setting["members"]), setting["clusters"], setting["watches"])
    while line := await reader.readline():
        step, *arguments = json.loads(line)
        print(json.dumps(await getattr(worker, step)(*arguments)), flush=True)


class Process:
    """A client's process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.figures: dict[str, list[Any]] = {}

    async def tell(self, *step: Any) -> None:
        self._process.stdin.write(json.dumps(step).encode() + b"\n")  # type: ignore[union-attr]
        await self._process.stdin.drain()  # type: ignore[union-attr]

    async def answer(self) -> None:
        line = await self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit("a client has ended")
        for figure, value in json.loads(line).items():
            self.figures.setdefault(figure, []).append(value)

    async def do(self, *step: Any) -> None:
        await self.tell(*step)
        await self.answer()


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        say("starting etcd and the API server")
        home, client, _ = await stack.enter_async_context(control_plane(folder))
        members = stack.enter_context(
            member_clusters(folder / "members", home.kubeconfig, Pki(home.pki), free_port())
        )
        say(f"making {options.clusters} clusters")
        clusters = names(options.clusters)
        await apply_all(client, (namespace(name) for name in clusters))
        await apply_all(client, watched(clusters, options.watches, options.clusters * options.watches))
        rounds = []
        for number in range(options.rounds):
            order = options.clients[number % len(options.clients) :]
            order += options.clients[: number % len(options.clients)]
            say(f"round {number + 1}: {', '.join(order)}")
            rounds.append(await one_round(order, options, members, client))
    return {name: summary([each[name] for each in rounds]) for name in options.clients}


async def one_round(
    order: list[str], options: argparse.Namespace, members: Members, client: Client
) -> dict[str, dict[str, list[Any]]]:
    setting = {
        "members": {"port": members.port, "authority": members.authority, "pid": members.pid},
        "clusters": options.clusters,
        "watches": options.watches,
    }
    workers: dict[str, Process] = {}
    started = []
    try:
        for name in order:
            process = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--work", name, stdin=-1, stdout=-1, limit=1 << 24
            )
            started.append(process)
            workers[name] = Process(process)
            process.stdin.write(json.dumps(setting).encode() + b"\n")  # type: ignore[union-attr]
            await workers[name].do("connect")
            say(f"{name}: {workers[name].figures}")
        for turn in range(TURNS):
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                await workers[name].do("apply", turn * options.applies, options.applies)
        for _ in range(TURNS):
            for worker in workers.values():
                await worker.do("events", options.events)
            await apply_all(client, watched(names(options.clusters), options.watches, options.events))
            await asyncio.gather(*(worker.answer() for worker in workers.values()))
        for worker in workers.values():
            await worker.do("end")
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
            await process.wait()
    return {name: worker.figures for name, worker in workers.items()}


def watched(clusters: list[str], watches: int, count: int) -> Iterable[Object]:
    """Yield changes of objects that are watched, each of another one."""
    for number in range(count):
        name, cluster = f"watched-{number // len(clusters) % watches}", clusters[number % len(clusters)]
        yield config_map(name, str(time.monotonic()), cluster)


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def summary(rounds: list[dict[str, list[Any]]]) -> dict[str, Any]:
    """Return the median of each figure over turns and rounds."""
    result = {}
    for figure in rounds[0]:
        values = [value for each in rounds for value in each[figure]]
        if isinstance(values[0], list):
            result[figure] = [round(statistics.median(each), 1) for each in zip(*values, strict=True)]
        else:
            result[figure] = round(statistics.median(values), 3)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--watches", type=int, default=3, help="of each cluster")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--applies", type=int, default=200, help="of each client in each of ten turns")
    parser.add_argument("--events", type=int, default=200, help="in each of ten turns")
    parser.add_argument("--clients", type=lambda text: text.split(","), default=list(CLIENTS))
    parser.add_argument("--work", choices=list(CLIENTS), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON line; the default")
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work))
        return 0
    with tempfile.TemporaryDirectory(prefix="modelplane-bench-") as folder:
        result = asyncio.run(measure(options, Path(folder)))
    setting = {"clusters": options.clusters, "watches": options.watches, "machine": f"{os.cpu_count()} cores"}
    print(json.dumps(setting | result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
