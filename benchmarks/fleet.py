"""Run the controllers over a fleet of many clusters and time them.

    python benchmarks/fleet.py --clusters 1000 --deployments 100 --replicas 10 --json

Prints one JSON line; progress goes to standard error. Everything happens in a temporary home, and is stopped
and deleted at the end. A real etcd and a real API server hold the control plane and all the clusters, and
`modelplane controller` is the process that runs anywhere. Each cluster has a kubeconfig and connections of
its own, over TLS, and sees only its own objects (`member_clusters.py`). A deployment has one replica on each
cluster of its region. No pod runs, and none of Kubernetes' own controllers, which in a fleet work on the
clusters' machines: what is timed ends with the workload objects that the clusters' API server has accepted.

`connected_seconds` is from starting the controllers until every cluster is Ready. `composed_seconds` is from
applying the deployments until every replica exists and every object of every replica is there;
`settled_seconds` until every replica says so in its status, too. `one_more_seconds` is the same as
`composed_seconds` for one further deployment, by the number of deployments that are there then: the median
of three; of those beyond `--deployments` each has one replica. `idle_cpu` is the part of one core that the
controllers take over a quiet minute, `watches` the requests that they then hold open, `memory_mb` their
resident memory, `open_files` the files and sockets that they have open, and `scrape_cpu_seconds` what one
scrape of their metrics takes, which the quiet minute does not have. `cpu_seconds` is what each
process used while the deployments were composed. `requests_per_replica` counts the requests of all clients,
those of the API server to itself included.

With `--simulated`, only the control plane is a real API server. The clusters are the memory of one program
(`simulated_clusters.py`), so that many more of them leave the controllers enough of the machine:

    python benchmarks/fleet.py --clusters 10000 --simulated --json
"""

import argparse
import asyncio
import base64
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ended_process
import psutil
from member_clusters import TEAM, Members, member_clusters, names
from prometheus_client.parser import text_string_to_metric_families
from simulated_clusters import Simulated, simulated_clusters

from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE
from modelplane.api.schema.crd import crd
from modelplane.compose.cluster import cluster_namespace
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.readiness import is_true
from modelplane.controllers import fleet_resources
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource
from modelplane.local import binary, setup
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects
from modelplane.local.kubernetes.cluster_objects import apply_in_order, gather_all, wait_until_established
from modelplane.local.kubernetes.control_plane import ControlPlane, Pki

WORKLOADS = (
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.DEPLOYMENTS,
    resources.SERVICES,
    resources.HTTP_ROUTES,
)
"""What each replica of this benchmark has on its cluster: one object of each kind."""

REGION = "region"
SAMPLES = 3
QUIET_S = 60.0
PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What runs, and an administrator's hands on it."""

    client: Client
    pids: Mapping[str, int]
    metrics_port: int
    folder: Path
    simulated: Simulated | None = None

    def cpu_seconds(self) -> dict[str, float]:
        """Return how much processor time each process has used."""
        times = {name: psutil.Process(pid).cpu_times() for name, pid in self.pids.items()}
        return {name: round(each.user + each.system, 2) for name, each in times.items()}

    async def watches(self) -> int:
        """Return how many watches the API server and the clusters hold open, whoever opened them."""
        text = (await self.client.get_raw("/metrics")).decode()
        name = "apiserver_longrunning_requests"
        found = sum(value for labels, value in _samples(text, name) if labels["verb"] == "WATCH")
        return int(found) + (await asyncio.to_thread(self.simulated.watches) if self.simulated else 0)

    async def requests(self) -> Counter[str]:
        """Return how many requests the API server has answered, by what they did to which kind."""
        text = (await self.client.get_raw("/metrics")).decode()
        counts = await asyncio.to_thread(self.simulated.requests) if self.simulated else Counter()
        for labels, value in _samples(text, "apiserver_request"):
            if labels["verb"] not in ("WATCH", "LIST"):
                name = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                counts[f"{labels['verb']} {name}"] += int(value)
        return counts

    async def reconciles(self) -> int:
        """Return how many reconciles the controllers have done."""
        text = await asyncio.to_thread(_get, self.metrics_port, "/metrics")
        return int(sum(value for _, value in _samples(text, "modelplane_reconcile")))

    async def count(self, resource: Resource) -> int:
        """Return how many objects of a kind there are, without reading them."""
        if self.simulated and resource in WORKLOADS:
            return await asyncio.to_thread(self.simulated.count, resource)
        answer = json.loads(await self.client.get_raw(f"{resource.build_path()}?limit=1"))
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))

    async def composed(self, replicas: int) -> None:
        """Return once there are so many replicas, and every object of theirs."""
        for resource in (fleet_resources.MODEL_REPLICAS, *WORKLOADS):
            while (there := await self.count(resource)) < replicas:
                self.check()
                await asyncio.sleep(0.05 if replicas - there < 100 else 0.25)

    def check(self) -> None:
        """End where one of the processes has ended: there is nothing to wait for."""
        for name, pid in self.pids.items():
            ended_process.check(name, pid, self.folder)

    async def idle_cpu(self, seconds: float) -> float:
        """Return the part of one core that the controllers take over a time."""
        before = self.cpu_seconds()["controllers"]
        await asyncio.sleep(seconds)
        return round((self.cpu_seconds()["controllers"] - before) / seconds, 4)

    async def quiet(self) -> None:
        """Return once nothing has been reconciled for a while."""
        before, now = -1, await self.reconciles()
        while before != now:
            await asyncio.sleep(2)
            before, now = now, await self.reconciles()


def _get(port: int, path: str) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as answer:
        return str(answer.read().decode())


def _samples(text: str, name: str) -> Iterable[tuple[dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        if family.name == name:
            yield from ((sample.labels, sample.value) for sample in family.samples)


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        say("starting etcd and the API server")
        home, client, pids = await stack.enter_async_context(control_plane(folder))
        ports = [free_port(), free_port()]
        pki = Pki(home.pki)
        where = (folder / "members", home.kubeconfig, pki, ports[0])
        members = stack.enter_context(
            simulated_clusters(*where, on_each_cluster()) if options.simulated else member_clusters(*where)
        )
        say(f"registering {options.clusters} clusters")
        await register(client, members, names(options.clusters), regions(options))
        simulated = members if isinstance(members, Simulated) else None
        pids["clusters" if simulated else "envoy"] = members.pid
        without = await Bench(client, pids, ports[1], folder, simulated).watches()
        say("starting the controllers")
        began = time.monotonic()
        pids["controllers"] = stack.enter_context(
            process(controllers(home, ports[1]), folder / "controllers.log", folder)
        )
        bench = Bench(client, pids, ports[1], folder, simulated)
        result: dict[str, Any] = {
            "clusters": options.clusters,
            "deployments": options.deployments,
            "replicas": options.replicas,
        }
        await ready(bench, options.clusters)
        result["connected_seconds"] = since(began)
        result["connected_cpu_seconds"] = bench.cpu_seconds()
        await bench.quiet()
        result["watches_of_an_empty_fleet"] = await bench.watches() - without
        result["memory_mb_of_an_empty_fleet"] = memory(pids["controllers"])
        result["idle_cpu_of_an_empty_fleet"] = await bench.idle_cpu(options.quiet)
        return result | await compose(bench, options, without)


async def compose(bench: Bench, options: argparse.Namespace, without: int) -> dict[str, Any]:
    """Time the deployments: a few, all of them, and one more after each step."""
    result: dict[str, Any] = {}
    more: dict[int, float] = {}
    there = Fleet(bench, regions(options))
    for others in sorted({min(each, options.deployments) for each in options.others}):
        if others < options.deployments:
            await there.grow(others - there.deployments, options.replicas)
            await bench.quiet()
            more[there.deployments] = await there.one_more(options.replicas)
    say(f"applying {options.deployments} deployments of {options.replicas} replicas")
    await bench.quiet()
    cpu, reconciles, requests = bench.cpu_seconds(), await bench.reconciles(), await bench.requests()
    result["composed_seconds"] = await there.grow(options.deployments, options.replicas)
    result["cpu_seconds"] = {name: round(used - cpu[name], 2) for name, used in bench.cpu_seconds().items()}
    result["reconciles"] = await bench.reconciles() - reconciles
    result["reconciles_per_second"] = round(result["reconciles"] / result["composed_seconds"], 1)
    result["settled_seconds"] = await there.settled()
    result["settled_reconciles"] = await bench.reconciles() - reconciles
    wanted = options.deployments * options.replicas
    result["requests_per_replica"] = {
        request: round(count / wanted, 2)
        for request, count in (await bench.requests() - requests).most_common()
        if count / wanted >= 0.05
    }
    more[there.deployments] = await there.one_more(options.replicas)
    say(f"a quiet {options.quiet:g} s")
    await bench.quiet()
    result["idle_cpu"] = await bench.idle_cpu(options.quiet)
    result["watches"] = await bench.watches() - without
    result["memory_mb"] = memory(bench.pids["controllers"])
    before = bench.cpu_seconds()["controllers"]
    await bench.reconciles()
    result["scrape_cpu_seconds"] = round(bench.cpu_seconds()["controllers"] - before, 2)
    result["open_files"] = psutil.Process(bench.pids["controllers"]).num_fds()
    for others in sorted(each for each in options.others if each > there.deployments):
        await there.grow(others - there.deployments, 1)
        await bench.quiet()
        more[there.deployments] = await there.one_more(options.replicas)
    result["one_more_seconds"] = more
    return result


class Fleet:
    """The deployments that were applied."""

    def __init__(self, bench: Bench, regions: int) -> None:
        self._bench = bench
        self._regions = regions
        self._began = 0.0
        self._replicas = 0
        self.deployments = 0

    async def grow(self, deployments: int, replicas: int) -> float:
        """Apply further deployments; return after how many seconds they were composed."""
        first = self.deployments
        self.deployments += deployments
        self._replicas += deployments * replicas
        self._began = time.monotonic()
        numbers = range(first, self.deployments)
        manifests = [deployment(number, replicas, self._regions) for number in numbers]
        await apply_all(self._bench.client, manifests)
        await self._bench.composed(self._replicas)
        elapsed = since(self._began)
        say(f"{self.deployments} deployments, {self._replicas} replicas: composed after {elapsed} s")
        return elapsed

    async def one_more(self, replicas: int) -> float:
        """Return how long one further deployment takes."""
        taken = []
        for _ in range(SAMPLES):
            taken.append(await self.grow(1, replicas))
            await self._bench.quiet()
        return statistics.median(taken)

    async def settled(self) -> float:
        """Wait until every replica says that its engines are on their clusters; return since when."""
        informer = Informer(self._bench.client, fleet_resources.MODEL_REPLICAS)
        task = asyncio.create_task(informer.run())
        while (
            sum(is_true(each, "Synced") and is_true(each, "ModelAccepted") for each in informer)
            < self._replicas
        ):
            await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return since(self._began)


@asynccontextmanager
async def control_plane(folder: Path) -> AsyncIterator[tuple[Home, Client, dict[str, int]]]:
    """Run etcd and an API server, with our kinds and our permissions, and nothing else of Kubernetes."""
    home = Home(folder / "home")
    setup.make_home(home)
    plane = ControlPlane(home, setup.set_up(home).ports, binary.find_or_build(lambda _progress: None))
    both = plane.build_argv(runs_pods=False)
    api_server = both[both.index("kube-apiserver") : both.index("kube-controller-manager")]
    with (
        process(plane.build_etcd_argv(), folder / "etcd.log", plane.directory) as etcd,
        process((str(plane.binary), *api_server), folder / "kube-apiserver.log", plane.directory) as server,
    ):
        async with Client.from_kubeconfig(str(home.kubeconfig), known=fleet_resources.find_known) as client:
            await until_ready(client)
            kinds = [crd(kind) for kind in COMPOSED] + cluster_objects.load_gateway_api()
            await apply_all(client, kinds)
            await wait_until_established(client, [kind["metadata"]["name"] for kind in kinds])
            await apply_in_order(client, cluster_objects.build_manifests())
            yield home, client, {"etcd": etcd, "kube-apiserver": server}


async def until_ready(client: Client) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await client.get_raw("/readyz")
            except errors.KubernetesError:
                await asyncio.sleep(0.1)
            else:
                return


@contextmanager
def process(command: tuple[str, ...], log: Path, directory: Path) -> Iterator[int]:
    """Run a process; yield its pid."""
    with log.open("wb") as file:
        started = subprocess.Popen(command, stdout=file, stderr=file, cwd=directory)
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait(60)


GATEWAY = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "inference-gateway", "namespace": SYSTEM_NAMESPACE},
    "spec": {"gatewayClassName": "any", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
}
ADDRESS = {"status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]}}


def on_each_cluster() -> dict[Resource, list[Object]]:
    """Return the objects that each simulated cluster has from the start."""
    return {
        resources.GATEWAYS: [GATEWAY | ADDRESS],
        resources.NAMESPACES: [_namespace(SYSTEM_NAMESPACE), _namespace(TEAM, cluster_namespace.OURS)],
        resources.CUSTOM_RESOURCE_DEFINITIONS: cluster_objects.load_gateway_api(),
    }


async def register(client: Client, members: Members, clusters: list[str], regions: int) -> None:
    """Tell the control plane of the clusters, and give each what it has from the start."""
    device = {
        "name": "gpu",
        "driver": "gpu.nvidia.com",
        "deviceClassName": "gpu.nvidia.com",
        "count": 8,
        "capacity": {"memory": {"value": "80Gi"}},
    }
    shared = not isinstance(members, Simulated)
    if shared:
        await client.apply(GATEWAY)
        await client.patch(
            resources.GATEWAYS, "inference-gateway", ADDRESS, SYSTEM_NAMESPACE, subresource="status"
        )
    await client.apply(_ours("InferenceClass", "h100", {"devices": [device]}))
    await client.apply(_ours("InferenceGateway", "default", {"backend": "Envoy"}))
    await apply_all(client, (_namespace(name) for name in (TEAM, *(clusters if shared else ()))))
    await apply_all(client, (_secret(name, members.kubeconfig(name)) for name in clusters))
    await apply_all(client, (_cluster(name, region) for region, name in _by_region(clusters, regions)))


def _namespace(name: str, labels: Mapping[str, str] = MappingProxyType({})) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}


def _secret(cluster: str, kubeconfig: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": cluster, "namespace": SYSTEM_NAMESPACE},
        "data": {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()},
    }


def regions(options: argparse.Namespace) -> int:
    """Return how many regions there are: a deployment has one replica on each cluster of its region."""
    return max(options.clusters // options.replicas, 1)


def _by_region(clusters: list[str], regions: int) -> Iterable[tuple[str, str]]:
    return ((f"region-{place % regions}", name) for place, name in enumerate(clusters))


def _cluster(name: str, region: str) -> Object:
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}}},
        "servingStack": {"profile": "None"},
        "nodePools": [{"name": f"pool-{pool}", "className": "h100", "nodeCount": 32} for pool in range(3)],
    }
    cluster = _ours("InferenceCluster", name, spec)
    cluster["metadata"]["labels"] = {REGION: region}
    return cluster


def _ours(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def deployment(number: int, replicas: int, regions: int) -> Object:
    """Return a deployment for one region whose replicas take one node each."""
    selector = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "count": 8, "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]}},
    }
    spec = {
        "replicas": replicas,
        "clusterSelector": {"matchLabels": {REGION: f"region-{number % regions}"}},
        "engines": [{"name": "main", "members": [member]}],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelDeployment",
        "metadata": {"name": f"model-{number:05}", "namespace": TEAM},
        "spec": spec,
    }


async def apply_all(client: Client, manifests: Iterable[Object]) -> None:
    await gather_all(client.apply(manifest) for manifest in manifests)


def controllers(home: Home, metrics_port: int) -> tuple[str, ...]:
    """Return the command line of the controllers as an installation has it."""
    return (
        *(sys.executable, "-m", "modelplane.cli.main", "controller", "--leader-elect"),
        *("--kubeconfig", str(home.controller_kubeconfig), "--gateway-service", "front-door"),
        *("--metrics-address", f"127.0.0.1:{metrics_port}"),
    )


async def ready(bench: Bench, clusters: int) -> None:
    """Return once every cluster is Ready."""
    informer = Informer(bench.client, fleet_resources.INFERENCE_CLUSTERS)
    task = asyncio.create_task(informer.run())
    while sum(is_true(each, "Ready") for each in informer) < clusters:
        bench.check()
        await asyncio.sleep(0.25 + clusters / 5000)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def memory(pid: int) -> int:
    return round(psutil.Process(pid).memory_info().rss / 1e6)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def since(start: float) -> float:
    return round(time.monotonic() - start, 2)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--deployments", type=int, default=100)
    parser.add_argument("--replicas", type=int, default=10, help="of each deployment")
    parser.add_argument(
        "--others",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[10, 1000],
        help="numbers of other deployments at which one more is timed, besides --deployments",
    )
    parser.add_argument("--simulated", action="store_true", help="the clusters are those of one program")
    parser.add_argument("--quiet", type=float, default=QUIET_S, help="seconds over which idle_cpu is taken")
    parser.add_argument("--json", action="store_true", help="print one JSON line; the default")
    options = parser.parse_args()
    # Whoever ends it wants everything stopped and deleted, as one does who interrupts it.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with tempfile.TemporaryDirectory(prefix="modelplane-bench-") as folder:
        result = asyncio.run(asyncio.wait_for(measure(options, Path(folder)), PATIENCE_S))
    result["machine"] = f"{os.cpu_count()} cores"
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
