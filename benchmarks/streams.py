"""Measure the memory of a stream that the gateway carries, and that none is lost.

    python benchmarks/streams.py --json

Opens many streams at once through one Envoy: 5,000 over HTTP/1.1, a connection each, and 10,000 over HTTP/2,
four on each connection. Each has its first event before the memory is measured, and then gets the rest.
Measures a bare Envoy, and the gateway with keys, limits, token counts and usage records, each in a process of
its own. Prints one JSON object: for each the resident memory of a stream in progress, and how many streams
were complete; the exit status is 1 if one was not. Each process needs an open file (`ulimit -n`) for each of
its connections. Progress goes to standard error.
"""

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, cast

import h2.config
import h2.connection
import h2.events
import msgspec

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import WITH_MODULE
from modelplane.gateway.envoy.listeners import MOST_STREAMS
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile, NamespaceEntry
from modelplane.gateway.module_files.models import ModelFile, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table
from modelplane.local import gateway_module
from modelplane.proxy import admin, envoy_bootstrap, module
from modelplane.proxy.envoy_directory import USAGE_LOG

STREAMS = {"HTTP/1.1": 5_000, "HTTP/2": 10_000}
STACKS = ("bare", "everything")
EVENTS = 10
OPENED_AT_ONCE = 200
MEMORY_BYTES = 8 << 30
KEYS = 1_000
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
Json = dict[str, Any]


def secret(number: int) -> str:
    return f"sk-benchmark-{number % KEYS:08d}"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def event(number: int) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": f"word {number}"}}]}).encode()


REST = b"".join(chunk(event(number)) for number in range(1, EVENTS))
LAST = chunk(
    b'data: {"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":10,"total_tokens":50}}\n\n'
    b"data: [DONE]\n\n"
)
END = b"0\r\n\r\n"


class Engine(asyncio.Protocol):
    """Connection of an engine: the first event of a stream at once, the rest once all are to end."""

    open: "set[Engine]" = set()  # noqa: RUF012 - all connections of one process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        _, sized, rest = head.lower().partition(b"content-length: ")
        complete = len(body) >= int(rest.split(b"\r\n")[0]) if sized else body.endswith(END)
        if complete:
            self._received = b""
            self._transport.write(HEAD + chunk(event(0)))
            self.open.add(self)

    def finish(self) -> None:
        self._transport.write(REST + LAST + END)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        self.open.discard(self)


def serve(port: int, ending: Event) -> None:
    """Be the engine, in a process of its own; end the streams whenever told."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Engine, "127.0.0.1", port, backlog=4096)
        async with server:
            while True:
                await asyncio.sleep(0.05)
                if ending.is_set():
                    for each in list(Engine.open):
                        each.finish()
                    Engine.open.clear()
                    ending.clear()

    asyncio.run(run())


class Streams:
    """Streams of a client, and how far they are."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.begun = 0
        self.complete = 0
        self.ended = 0
        self.problems: list[str] = []

    def end(self, content: bytes, problem: str = "") -> None:
        self.ended += 1
        # The client asked for no token counts, so the gateway hides them.
        events = content.count(b'data: {"choices": [{')
        if not problem and events == EVENTS and b"data: [DONE]\n\n" in content:
            self.complete += 1
        elif len(self.problems) < 5:
            self.problems.append(problem or f"{events} events: {content[-200:]!r}")

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(180):
                while not reached():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"{what}: {self.begun} begun, {self.ended} ended, {self.problems}") from None


def content(number: int) -> bytes:
    messages = [{"role": "user", "content": "word " * 40}]
    return json.dumps(
        {"model": "ml/qwen", "stream": True, "messages": messages, "user": str(number)}
    ).encode()


class Http1(asyncio.Protocol):
    """A connection of HTTP/1.1, which carries one stream."""

    def __init__(self, streams: Streams, number: int, path: str) -> None:
        self._streams, self._number, self._path = streams, number, path
        self._received = bytearray()
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        body = content(self._number)
        head = (
            f"POST {self._path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {secret(self._number)}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._streams.begun += 1
        self._received += data
        if self._received.endswith(END):
            self._over = True
            self._streams.end(bytes(self._received))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over:
            self._streams.end(b"", f"closed: {exc}, {bytes(self._received[-200:])!r}")


class Http2(asyncio.Protocol):
    """A connection of HTTP/2, which carries as many streams as the gateway permits."""

    def __init__(self, streams: Streams, number: int, path: str) -> None:
        self._streams, self._path = streams, path
        self._numbers = range(number, min(number + MOST_STREAMS, streams.count))
        self._received: dict[int, bytearray] = {}
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connection.initiate_connection()
        for number in self._numbers:
            stream = self._connection.get_next_available_stream_id()
            head = {":method": "POST", ":path": self._path, ":authority": "gateway", ":scheme": "http"}
            more = {"authorization": f"Bearer {secret(number)}", "content-type": "application/json"}
            self._connection.send_headers(stream, [*head.items(), *more.items()])
            self._connection.send_data(stream, content(number), end_stream=True)
        self._transport.write(self._connection.data_to_send())

    def data_received(self, data: bytes) -> None:
        for each in self._connection.receive_data(data):
            if isinstance(each, h2.events.DataReceived):
                self._streams.begun += each.stream_id not in self._received
                self._received.setdefault(each.stream_id, bytearray()).extend(each.data)
                self._connection.acknowledge_received_data(each.flow_controlled_length, each.stream_id)
            elif isinstance(each, h2.events.StreamEnded):
                self._streams.end(bytes(self._received.pop(each.stream_id, b"")))
            elif isinstance(each, h2.events.StreamReset):
                self._streams.end(b"", f"reset: {each.error_code}")
        self._transport.write(self._connection.data_to_send())
        if self._streams.ended >= self._streams.count:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for received in self._received.values():
            self._streams.end(b"", f"closed: {exc}, {bytes(received[-200:])!r}")


async def carry(
    version: str, port: int, path: str, count: int, ending: Event, measured: Callable[[], Json]
) -> tuple[Streams, Json]:
    """Open streams, measure while all are in progress, let them end; return both."""
    streams = Streams(count)
    kind, each = (Http1, 1) if version == "HTTP/1.1" else (Http2, MOST_STREAMS)
    loop = asyncio.get_running_loop()
    opened = []
    for start in range(0, count, OPENED_AT_ONCE):
        numbers = range(start, min(start + OPENED_AT_ONCE, count), each)
        opening: list[Awaitable[Any]] = [
            loop.create_connection(lambda number=number: kind(streams, number, path), "127.0.0.1", port)  # type: ignore[misc]
            for number in numbers
        ]
        opened += [transport for transport, _ in await asyncio.gather(*opening)]
        goal = min(start + OPENED_AT_ONCE, count)
        await streams.until(lambda goal=goal: streams.begun + streams.ended >= goal, "not begun")  # type: ignore[misc]
    await asyncio.sleep(1)
    found = measured()
    ending.set()
    await streams.until(lambda: streams.ended >= count, "not ended")
    for transport in opened:
        transport.close()
    return streams, found


def everything(port: int, behind: int) -> Listener:
    """Return the gateway's listener with keys, limits, the one URL for all models, and usage records."""
    all_keys = NamespaceEntry(
        services=("ml/*",), requests_per_minute=10**9, tokens_per_minute=10**12, streams=10**6
    )
    limits = {name: getattr(all_keys, name) for name in all_keys.__struct_fields__}
    each = KeyEntry(sha256="", id="", namespace="ml", **limits)
    entries = tuple(
        msgspec.structs.replace(
            each, sha256=hashlib.sha256(secret(number).encode()).hexdigest(), id=f"ml/{number}"
        )
        for number in range(KEYS)
    )
    keys = KeyFile(keys=entries, namespaces={"ml": all_keys})
    models = ModelFile(services=(ServiceEntry(name="ml/qwen", created=0),))
    route = Route("ml/qwen", "/ml/qwen/", (Backend("ml/qwen", (("127.0.0.1", behind),), prefix="/"),))
    return Listener("front-door", "127.0.0.1", port, (route,), front=Front(keys, models), usage_log=USAGE_LOG)


def bare(listeners: str) -> str:
    """Return the listeners with nothing but Envoy's router and one route."""
    content = json.loads(listeners)
    for each in content["resources"]:
        manager = each["filter_chains"][0]["filters"][0]["typed_config"]
        router = manager["http_filters"][-1]
        del router["typed_config"]["upstream_http_filters"], manager["rds"], manager["access_log"]
        change = {"prefix_rewrite": "/", "cluster": f"{each['name']}/ml/qwen", "timeout": "0s"}
        routes = [{"match": {"prefix": "/ml/qwen/"}, "route": change}]
        hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
        manager |= {"http_filters": [router], "route_config": {"virtual_hosts": hosts}}
    return json.dumps(content)


def prepare(directory: Path, listener: Listener, library: Path, *, is_bare: bool) -> None:
    """Write Envoy's files."""
    content = render_files(Table((listener,)))
    if is_bare:
        content[WITH_MODULE] = bare(content[WITH_MODULE])
    for name, text in content.items():
        (directory / name).parent.mkdir(mode=0o700, exist_ok=True)
        (directory / name).write_text(text)
    if problem := envoy_bootstrap.prepare(directory, (listener,), memory_bytes=MEMORY_BYTES, library=library):
        raise RuntimeError(problem)
    path = directory / "bootstrap.json"
    configuration = json.loads(path.read_text())
    # The limit for this machine's open files supposes that each connection has four streams.
    monitor = configuration["overload_manager"]["resource_monitors"][0]["typed_config"]
    monitor["max_active_downstream_connections"] = 20_000
    path.write_text(json.dumps(configuration))


@contextmanager
def envoy(directory: Path) -> Iterator[int]:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            envoy_bootstrap.build_argv(directory),
            cwd=directory,
            env=os.environ | module.build_environment(directory),
            stdout=log,
            stderr=log,
        )
        try:
            until(lambda: not admin.find_obstacle(directory))
            yield process.pid
        finally:
            process.terminate()
            process.wait()


@contextmanager
def engine() -> Iterator[tuple[int, Event]]:
    context = multiprocessing.get_context("spawn")
    ending = context.Event()
    [port] = free_ports(1)
    process = context.Process(target=serve, args=(port, ending), daemon=True)
    process.start()
    try:
        until(lambda: is_open(port))
        yield port, ending
    finally:
        process.terminate()
        process.join()


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError("not ready within 30 s")
        time.sleep(0.05)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return found


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory")


def measure(version: str, stack: str, count: int, library: Path) -> Json:
    """Carry streams through an Envoy of their own."""
    with tempfile.TemporaryDirectory() as name, engine() as (behind, ending):
        [port] = free_ports(1)
        directory = Path(name)
        prepare(directory, everything(port, behind), library, is_bare=stack == "bare")
        path = "/ml/qwen/v1/chat/completions" if stack == "bare" else "/v1/chat/completions"
        with envoy(directory) as pid:
            until(lambda: is_open(port))
            time.sleep(0.5)  # routes come after listeners
            asyncio.run(carry(version, port, path, min(count, 100), ending, dict))
            time.sleep(0.5)
            before = resident_bytes(pid)
            streams, found = asyncio.run(
                carry(
                    version, port, path, count, ending,
                    lambda: {
                        "memory": resident_bytes(pid),
                        "open files": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - a count
                    },
                )
            )  # fmt: skip
    return {
        "streams": count,
        "complete": streams.complete,
        "problems": streams.problems,
        "memory before MiB": round(before / (1 << 20), 1),
        "memory in progress MiB": round(found["memory"] / (1 << 20), 1),
        "KiB per stream": round((found["memory"] - before) / count / 1024, 2),
        "open files": found["open files"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--streams", type=int, help="for each version of HTTP, instead of 5,000 and 10,000")
    parser.add_argument("--http", choices=tuple(STREAMS), help="only this version")
    options = parser.parse_args()
    library = gateway_module.find_or_build(lambda progress: print(progress.phase, file=sys.stderr))
    result: Json = {}
    for version in (options.http,) if options.http else STREAMS:
        for stack in STACKS:
            print(f"{version}, {stack}", file=sys.stderr)
            result.setdefault(version, {})[stack] = measure(
                version, stack, options.streams or STREAMS[version], library
            )
        found = result[version]
        ratio = found["everything"]["KiB per stream"] / max(found["bare"]["KiB per stream"], 0.01)
        result[version]["everything to bare"] = round(ratio, 3)
    if options.json:
        print(json.dumps(result))
    else:
        for version, found in result.items():
            for stack in STACKS:
                told = "  ".join(f"{what} {value}" for what, value in found[stack].items())
                print(f"{version:10} {stack:12} {told}")
    lost = any(
        found[each]["complete"] < found[each]["streams"] for found in result.values() for each in STACKS
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
