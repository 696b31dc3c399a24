"""Measure what one tenant's objects cost another tenant.

    python benchmarks/walls.py --json

Starts a local fleet in a temporary home. A victim makes a service for an endpoint of its own, in its own
namespace, and asks it: first in a quiet fleet, then while each crowd of another tenant's objects is stored,
and once it has been. Prints one JSON object: for each crowd the seconds until it was stored, and the victim's
seconds from applying a service until the gateway answers a request with 200; the highest time of the requests
that the victim's first service gets every tenth of a second throughout, and how many failed; the memory of
each process. Exits with 1 if a crowd delays the victim's service, or takes memory of Envoy, beyond the bars.
Progress goes to standard error.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from modelplane.api.meta import API_VERSION
from modelplane.gateway.gateway_api.http_routes import SERVICE_NAME
from modelplane.kube import resources
from modelplane.kube.client import Client

TENANT, VICTIM = "crowd", "victim"
AT_A_TIME = 32
PATIENCE_S = 300.0
ASKED_S = 0.1
SAMPLES, SAMPLES_AFTER = 3, 9
MOST_LATE_S = 2.0
"""Bar of the seconds by which a crowd may delay another team's service."""
MOST_ENVOY_MB = 250.0
"""Bar of the memory of Envoy."""
Manifest = dict[str, Any]


class Upstream(BaseHTTPRequestHandler):
    """An endpoint that answers everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def upstream() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


@dataclass(slots=True)
class Asked:
    """What a service answered that was asked all the time."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


async def ask_on(url: str, asked: Asked) -> None:
    while True:
        began = time.monotonic()
        ok = await asyncio.to_thread(answers, url)
        asked.seconds.append(time.monotonic() - began)
        asked.failed += not ok
        await asyncio.sleep(ASKED_S)


def endpoint(namespace: str, name: str, url: str, group: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": {"example.com/group": group}}
    return {"apiVersion": API_VERSION, "kind": "ModelEndpoint", "metadata": metadata, "spec": {"url": url}}


def service(namespace: str, name: str, group: str) -> Manifest:
    selector = {"matchLabels": {"example.com/group": group}}
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"endpoints": [{"selector": selector}]},
    }


def deployment(name: str) -> Manifest:
    """A deployment that fits nowhere."""
    selector = {"cel": f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{len(name)}Gi")) >= 0'}
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [selector]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]}},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {"replicas": 1, "engines": [{"name": "e", "members": [member]}]},
    }


async def endpoint_slices(client: Client, port: int) -> tuple[Manifest, ...]:
    """Place a model of the tenant's, and return slices with 5,000 more addresses of its Service."""
    placed = deployment("addresses")
    placed["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"][0]["selectors"] = [{"cel": "true"}]
    await client.apply(placed)
    async with asyncio.timeout(PATIENCE_S):
        while not (routes := (await client.list(resources.HTTP_ROUTES, TENANT)).items):
            await asyncio.sleep(0.1)
    service_name = routes[0]["spec"]["rules"][0]["backendRefs"][0]["name"]
    services = (await client.list(resources.SERVICES, TENANT, fields=f"metadata.name={service_name}")).items
    name = services[0]["spec"]["ports"][0].get("name", "")
    labels = {SERVICE_NAME: service_name, "modelplane.ai/managed-by": "modelplane"}
    return tuple(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"addresses-{at}", "namespace": TENANT, "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": name, "port": port}],
            "endpoints": [{"addresses": [f"198.18.{at}.{each + 1}"]} for each in range(100)],
        }
        for at in range(50)
    )


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def crowds(port: int) -> dict[str, tuple[Manifest, ...]]:
    """Return the objects of the other tenant, by what they are."""
    own = f"http://127.0.0.1:{port}/"
    return {
        "1,000 endpoints with an IP address": (
            *(
                endpoint(
                    TENANT, f"ip-{at}", f"http://127.1.{at // 250}.{at % 250 + 1}:{port}/", f"ip-{at % 40}"
                )
                for at in range(1000)
            ),
            *(service(TENANT, f"ip-{at}", f"ip-{at}") for at in range(40)),
        ),
        "2,000 services": (
            endpoint(TENANT, "shared", own, "shared"),
            *(service(TENANT, f"s-{at}", "shared") for at in range(2000)),
        ),
        "700 services for 1,000 endpoints": (
            *(endpoint(TENANT, f"each-{at}", own, "each") for at in range(1000)),
            *(service(TENANT, f"each-{at}", "each") for at in range(700)),
        ),
        "5,000 deployments that do not fit": tuple(deployment(f"d-{at}") for at in range(5000)),
    }


async def apply_all(client: Client, manifests: Iterable[Manifest]) -> None:
    waiting = iter(manifests)

    async def some() -> None:
        for manifest in waiting:
            await client.apply(manifest)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_A_TIME):
            group.create_task(some())


async def routed(client: Client, gateway: str, name: str, port: int) -> float:
    """Return the seconds from a new service of the victim to its first answer."""
    await client.apply(endpoint(VICTIM, name, f"http://127.0.0.1:{port}/", name))
    began = time.monotonic()
    await client.apply(service(VICTIM, name, name))
    while not await asyncio.to_thread(answers, f"{gateway}/{VICTIM}/{name}/v1/models"):
        if time.monotonic() - began > PATIENCE_S:
            return PATIENCE_S
        await asyncio.sleep(0.02)
    return round(time.monotonic() - began, 3)


async def measure(kubeconfig: Path, gateway: str, port: int, only: str) -> dict[str, Any]:
    asked = Asked()
    found: list[dict[str, Any]] = []
    client = Client.from_kubeconfig(str(kubeconfig), field_manager="walls", timeout_s=60)
    async with client:
        await apply_all(client, (namespace(TENANT), namespace(VICTIM)))
        quiet = [await routed(client, gateway, f"quiet-{at}", port) for at in range(SAMPLES)]
        asking = asyncio.create_task(ask_on(f"{gateway}/{VICTIM}/quiet-0/v1/models", asked))
        slices = {} if only else {"5,000 addresses in EndpointSlices": await endpoint_slices(client, port)}
        for name, manifests in (slices | crowds(port)).items():
            if only not in name:
                continue
            say(name)
            began = time.monotonic()
            storing = asyncio.create_task(apply_all(client, manifests))
            slug = f"during-{len(found)}"
            times = [await routed(client, gateway, f"{slug}-{at}", port) for at in range(SAMPLES)]
            await storing
            stored = round(time.monotonic() - began, 1)
            times += [
                await routed(client, gateway, f"after-{len(found)}-{at}", port) for at in range(SAMPLES_AFTER)
            ]
            found.append(
                {
                    "crowd": name,
                    "stored_seconds": stored,
                    "routed_seconds": times,
                    "worst_seconds": max(times),
                }
            )
            say(json.dumps(found[-1]))
        asking.cancel()
    return {
        "quiet_seconds": statistics.median(quiet),
        "crowds": found,
        "asked": len(asked.seconds),
        "failed": asked.failed,
        "slowest_request_seconds": round(max(asked.seconds), 3),
        "median_request_seconds": round(statistics.median(asked.seconds), 4),
    }


def run(environment: dict[str, str], *arguments: str, healthy: bool = True) -> str:
    command = [sys.executable, "-m", "modelplane.cli.main", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if healthy and done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="store only the crowds with this in their name"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="modelplane-walls-") as folder, upstream() as port:
        environment = os.environ | {"MODELPLANE_HOME": folder}
        try:
            say("modelplane up")
            run(environment, "up")
            status = json.loads(run(environment, "status", "-o", "json"))
            gateway = status["addresses"]["models"]
            result: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}"}
            kubeconfig = Path(run(environment, "kubeconfig").strip())
            result |= asyncio.run(measure(kubeconfig, gateway, port, options.only))
            status = json.loads(run(environment, "status", "-o", "json", healthy=False))
            result["memory_mb"] = {
                each["name"]: round(each["memoryBytes"] / 2**20, 1) for each in status["processes"]
            }
        finally:
            run(environment, "down", "--purge")
    print(json.dumps(result, indent=None if options.json else 2))
    late_s = max(each["worst_seconds"] for each in result["crowds"]) - result["quiet_seconds"]
    if late_s > MOST_LATE_S or result["memory_mb"]["envoy"] > MOST_ENVOY_MB:
        sys.exit(f"beyond the bars: {MOST_LATE_S} s later than when quiet, {MOST_ENVOY_MB} MB of Envoy")


if __name__ == "__main__":
    main()
