"""Measure what the gateway's filters cost, against a bare Envoy.

    python benchmarks/gateway.py --json

Starts one Envoy with a listener for each stack, and another one behind it that answers at once: with a JSON
answer of 0.7 KB or with 22 events. The stacks take turns, a second each. Prints one JSON object: for each
stack the median and the quartiles, over the rounds, of its ratios to the bare listener *in the same round*:
requests a second, processor time per request, and the 50th and 99th percentile of the time of an answer.
The client is one thread of Python, so requests a second and times are the client's as much as
Envoy's; the processor time is Envoy's own. Progress goes to standard error.
"""

import argparse
import asyncio
import hashlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import litellm_proxy

from modelplane.gateway.envoy import module_filters
from modelplane.gateway.envoy.access_log import build_access_log
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import ENVOY, HTTP_FILTERS, LISTENERS, WITH_NEW_MODULE
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.module_files.models import ModelFile
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table
from modelplane.local import gateway_module
from modelplane.proxy import envoy_bootstrap
from modelplane.proxy.envoy_directory import write

CONNECTIONS = 16
KEYS = 10_000
KEYS_IN_TURN = 1_000
MANAGER = f"{ENVOY}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
Json = dict[str, Any]
ROUTER: Json = {"name": "router", "typed_config": {"@type": f"{HTTP_FILTERS}router.v3.Router"}}


@dataclass(frozen=True, slots=True)
class Stack:
    """A listener to measure."""

    name: str
    front: Json | None = None
    """Configuration of the module's filter in front; None for Envoy's filters and Lua."""
    log: bool = False
    stream: bool = False
    bare: bool = False


KEYED = {"authentication": "APIKey", "keys": "keys.json", "usage": False}
EVERYTHING = {"authentication": "APIKey", "keys": "limited.json", "models": "models.json"}
STACKS = (
    Stack("bare", bare=True),
    Stack("today"),
    Stack("keys", KEYED),
    Stack("keys and limits", KEYED | {"keys": "limited.json"}),
    Stack("everything", EVERYTHING, log=True),
    Stack("bare, streaming", bare=True, stream=True),
    Stack("today, streaming", stream=True),
    Stack("everything, streaming", EVERYTHING, log=True, stream=True),
)


@dataclass(slots=True)
class Samples:
    """Ratios of a stack to the bare one, a value for each round."""

    requests: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """What a stack did in its second."""

    requests_per_s: float
    processor_s: float
    p50_s: float
    p99_s: float


def secret(number: int) -> str:
    return f"sk-benchmark-{number:08d}"


def keys(**limits: int) -> Json:
    each = {"namespace": "ml", "services": ["ml/*"], **limits}
    entries = [
        {"sha256": hashlib.sha256(secret(number).encode()).hexdigest(), "id": f"ml/{number}", **each}
        for number in range(KEYS)
    ]
    return {"keys": entries, "namespaces": {"ml": limits}}


def answer(stream: bool) -> tuple[str, str]:
    """Return the content type and the body of an answer."""
    usage = {"prompt_tokens": 120, "completion_tokens": 20, "total_tokens": 140}
    if not stream:
        choices = [{"index": 0, "message": {"role": "assistant", "content": "word " * 90}}]
        said = {"object": "chat.completion", "model": "m", "choices": choices, "usage": usage}
        return "application/json", json.dumps(said)
    events: list[Json] = [{"choices": [{"delta": {"content": f"word {number}"}}]} for number in range(20)]
    events.append({"choices": [], "usage": usage})
    return "text/event-stream", "".join(
        f"data: {json.dumps(each)}\n\n" for each in events
    ) + "data: [DONE]\n\n"


def upstream(ports: tuple[int, int]) -> Json:
    """Return the bootstrap of the Envoy that answers, with JSON and with events."""
    listeners = []
    for port, stream in zip(ports, (False, True), strict=True):
        content_type, body = answer(stream)
        header = {"header": {"key": "content-type", "value": content_type}}
        header["append_action"] = "OVERWRITE_IF_EXISTS_OR_ADD"  # type: ignore[assignment]
        route = {
            "match": {"prefix": "/"},
            "direct_response": {"status": 200, "body": {"inline_string": body}},
            "response_headers_to_add": [header],
        }
        listeners.append(listener(port, [route], [ROUTER]))
    return {"static_resources": {"listeners": listeners}}


def listener(port: int, routes: list[Json], filters: list[Json]) -> Json:
    manager = {
        "@type": MANAGER,
        "stat_prefix": str(port),
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": filters,
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {"name": str(port), "address": address, "filter_chains": [chain]}


def module_filter(library: Path, name: str, configuration: Json) -> Json:
    text = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": json.dumps(configuration)}
    module = {
        "name": library.stem.removeprefix("lib"),
        "do_not_close": True,
        "metrics_namespace": "modelplane",
    }
    configured = {"dynamic_module_config": module, "filter_name": name, "filter_config": text}
    kind = {"@type": f"{HTTP_FILTERS}dynamic_modules.v3.DynamicModuleFilter"}
    own = module_filters.ATTEMPTS if name == "backend" else f"modelplane.{name}"
    return {"name": own, "typed_config": kind | configured}


def front(library: Path, ports: dict[str, int], upstreams: tuple[int, int]) -> dict[str, str]:
    """Return the files of the Envoy that is measured."""
    table = []
    for stack in STACKS:
        backend = Backend("ml/qwen", (("127.0.0.1", upstreams[stack.stream]),), prefix="/")
        route = Route("ml/qwen", "/ml/qwen/", (backend,))
        models = ModelFile() if stack.front and "models" in stack.front else None
        guard = Front(keys=KeyFile(), models=models) if stack.front else None
        table.append(Listener(stack.name, "127.0.0.1", ports[stack.name], (route,), front=guard))
    made = render_files(Table(tuple(table)))
    without, with_module = (json.loads(made[name])["resources"] for name in (LISTENERS, WITH_NEW_MODULE))
    # Those that have keys are in the second file only.
    known = {each["name"]: each for each in (*with_module, *without)}
    listeners: Json = {"resources": list(known.values())}
    for each in listeners["resources"]:
        (stack,) = (stack for stack in STACKS if stack.name == each["name"])
        if stack.bare:
            change = {"prefix_rewrite": "/", "cluster": f"{stack.name}/ml/qwen", "timeout": "0s"}
            routes = [{"match": {"prefix": "/ml/qwen/"}, "route": change}]
            each["filter_chains"] = listener(0, routes, [ROUTER])["filter_chains"]
            continue
        manager = each["filter_chains"][0]["filters"][0]["typed_config"]
        filters = manager["http_filters"]
        if stack.front is not None:
            options = {"internalHeaders": True, "direct": True, "requestTimeoutSeconds": 900}
            options |= {"record": stack.log, **stack.front}
            filters[:-1] = [module_filter(library, "front", options)]
            below = filters[-1]["typed_config"]["upstream_http_filters"]
            below[:-1] = [module_filter(library, "backend", {})]
        if stack.log:
            logged = Listener(stack.name, "", 0, usage_log="access.log", front=Front())
            manager["access_log"] = build_access_log(logged, with_module=True)
    return made | {LISTENERS: json.dumps(listeners)}


@contextmanager
def envoy(directory: Path, library: Path, *wrapper: str) -> Iterator[int]:
    program, *_ = envoy_bootstrap.build_argv(directory)
    options = ("--config-path", "bootstrap.json", "--concurrency", "1", "--disable-hot-restart")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*wrapper, program, *options, "--log-level", "warn"],
            cwd=directory,
            env=os.environ | {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(library.parent)},
            stdout=log,
            stderr=log,
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def processor_s(pid: int) -> float:
    """Return the processor time of a process, from the scheduler's nanoseconds of each thread."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


class Client(asyncio.Protocol):
    """One connection that asks again as soon as its answer is complete."""

    def __init__(self, requests: Iterator[bytes], again: Callable[[], bool], times: list[float]) -> None:
        self._requests = requests
        self._again = again
        self._times = times
        self._received = b""
        self._asked = 0.0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def _ask(self) -> None:
        self._received = b""
        self._asked = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        _, sized, rest = head.partition(b"content-length: ")
        complete = len(body) >= int(rest.split(b"\r\n")[0]) if sized else body.endswith(b"0\r\n\r\n")
        if not complete:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(self._received.decode())
        self._times.append(time.perf_counter() - self._asked)
        if self._again():
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(exc)


def requests(stack: Stack) -> Iterator[bytes]:
    """Yield requests of 0.9 KB, with the keys in turn."""
    messages = [{"role": "user", "content": "word " * 150}]
    body = {"model": "ml/qwen", "messages": messages, **({"stream": True} if stack.stream else {})}
    content = json.dumps(body).encode()
    path = "/v1/chat/completions" if "models" in (stack.front or {}) else "/ml/qwen/v1/chat/completions"
    number = 0
    while True:
        number = (number + 1) % KEYS_IN_TURN
        head = (
            f"POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {secret(number)}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        yield head.encode() + content


async def load(stack: Stack, port: int, again: Callable[[], bool]) -> list[float]:
    """Return the time of each answer."""
    times: list[float] = []
    asking = requests(stack)
    loop = asyncio.get_running_loop()
    clients = [
        await loop.create_connection(lambda: Client(asking, again, times), "127.0.0.1", port)
        for _ in range(CONNECTIONS)
    ]
    for _, client in clients:
        await client.done
    return times


async def turn(stack: Stack, port: int, pid: int, seconds: float) -> Turn:
    used, started = processor_s(pid), time.perf_counter()
    times = await load(stack, port, lambda: time.perf_counter() < started + seconds)
    took = time.perf_counter() - started
    cuts = statistics.quantiles(times, n=100)
    return Turn(len(times) / took, (processor_s(pid) - used) / len(times), cuts[49], cuts[98])


async def measure(ports: dict[str, int], pid: int, rounds: int, seconds: float) -> dict[str, Samples]:
    samples = {stack.name: Samples() for stack in STACKS}
    for number in range(-1, rounds):
        turns = {stack.name: await turn(stack, ports[stack.name], pid, seconds) for stack in STACKS}
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        if number < 0:
            continue  # connections and caches fill up
        for stack in STACKS:
            own, bare = turns[stack.name], turns["bare, streaming" if stack.stream else "bare"]
            found = samples[stack.name]
            found.requests.append(own.requests_per_s / bare.requests_per_s)
            found.processor.append(own.processor_s / bare.processor_s)
            found.p50.append(own.p50_s / bare.p50_s)
            found.p99.append(own.p99_s / bare.p99_s)
    return samples


def quartiles(values: list[float]) -> Json:
    low, middle, high = statistics.quantiles(values, n=4)
    return {
        "median": round(middle, 3),
        "quartiles": [round(low, 3), round(high, 3)],
        "rounds": [round(each, 3) for each in values],
    }


async def ready(ports: list[int]) -> None:
    async with asyncio.timeout(120):
        for port in ports:
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
    await asyncio.sleep(0.5)  # routes come after listeners


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return found


@contextmanager
def running(*wrapper: str) -> Iterator[tuple[dict[str, int], int, int]]:
    """Run both Envoys; yield the port of each stack, the measured process, and the port of the other."""
    library = gateway_module.find_or_build(lambda progress: print(progress.phase, file=sys.stderr))
    first, second, *rest = free_ports(2 + len(STACKS))
    ports = {stack.name: port for stack, port in zip(STACKS, rest, strict=True)}
    with tempfile.TemporaryDirectory() as name:
        behind, measured = Path(name) / "behind", Path(name) / "measured"
        behind.mkdir()
        (behind / "bootstrap.json").write_text(json.dumps(upstream((first, second))))
        measured.mkdir()
        limits = {"requestsPerMinute": 10**9, "tokensPerMinute": 10**12, "streams": 10**6}
        for path, entries in (("keys.json", keys()), ("limited.json", keys(**limits))):
            (measured / path).write_text(json.dumps(entries))
        (measured / "models.json").write_text(json.dumps({"services": [{"name": "ml/qwen"}]}))
        write(measured, front(library, ports, (first, second)))
        envoy_bootstrap.prepare(measured, ())
        with envoy(behind, library), envoy(measured, library, *wrapper) as pid:
            asyncio.run(ready([first, second, *rest]))
            yield ports, pid, first


def run(rounds: int, seconds: float, litellm: Path | None = None) -> Json:
    before = os.getloadavg()
    with running() as (ports, pid, first):
        samples = asyncio.run(measure(ports, pid, rounds, seconds))
        compared = asyncio.run(against(litellm, ports, pid, first, seconds)) if litellm else None
    return {
        **({"LiteLLM": compared} if compared else {}),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load of the last minute": {"before": before[0], "after": os.getloadavg()[0]},
        },
        "rounds": rounds,
        "seconds": seconds,
        "stacks": {
            name: {
                "requests per second": quartiles(found.requests),
                "processor time per request": quartiles(found.processor),
                "p50": quartiles(found.p50),
                "p99": quartiles(found.p99),
            }
            for name, found in samples.items()
        },
    }


async def against(program: Path, ports: dict[str, int], pid: int, behind: int, seconds: float) -> Json:
    """Compare the stack with everything on with LiteLLM's proxy, in front of the same backend."""
    [port] = free_ports(1)
    [stack] = (each for each in STACKS if each.name == "everything")
    return await litellm_proxy.compare(
        program,
        port,
        behind,
        lambda: turn(stack, ports[stack.name], pid, seconds),
        lambda port, process: turn(stack, port, process, max(seconds, 5.0)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=36)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each stack in a round")
    parser.add_argument("--litellm", type=Path, help="program of LiteLLM's proxy, to compare with")
    options = parser.parse_args()
    result = run(options.rounds, options.seconds, options.litellm)
    if options.json:
        print(json.dumps(result))
        return
    for name, found in result["stacks"].items():
        print(f"{name:24}", *(f" {what} {each['median']:.2f}" for what, each in found.items()))
    for what, value in result.get("LiteLLM", {}).items():
        print(f"LiteLLM: {what} {value}")


if __name__ == "__main__":
    main()
