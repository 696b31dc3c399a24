"""Failover in the controllers: what clusters are seen as, who is told, and nothing where nobody asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.controllers.clusters.gateway_probes import DataPath, gateway_addresses
from modelplane.controllers.decision_loops.failover_loop import Failover
from modelplane.controllers.interests import OwnerKey
from modelplane.deciders.cluster_health import ClusterState, Evidence, Watched, Witness
from modelplane.kube import errors
from support.telemetry import cluster, deployment, item, ready

CLOSED = ("127.0.0.1", 1)


class Copies(list[dict[str, Any]]):
    """An informer's objects."""

    problem = ""


class Server:
    """An API server that answers, refuses, or is away."""

    def __init__(self) -> None:
        self.error: errors.KubernetesError | None = None
        self.asked = 0

    async def get_raw(self, _path: str) -> bytes:
        self.asked += 1
        if self.error:
            raise self.error
        return b""


class Bench:
    """Three clusters, a deployment with a replica on the first, and what the controllers know of them."""

    def __init__(self, *, failover: bool = True) -> None:
        wanted = deployment("qwen", 1)
        wanted["spec"]["engines"] = ENGINES
        if failover:
            wanted["spec"]["failover"] = {"after": "10s"}
        owner = {"kind": "ModelDeployment", "name": "qwen", "controller": True, "apiVersion": "v1"}
        replica = item("ModelReplica", "qwen-a", ready("True"), spec={"clusterName": "a"})
        replica["metadata"]["ownerReferences"] = [{**owner, "uid": wanted["metadata"]["uid"]}]
        self.wanted = wanted
        self.informers = {
            "InferenceCluster": Copies(map(cluster, "abc")),
            "ModelDeployment": Copies([wanted]),
            "ModelReplica": Copies([replica]),
        }
        self.own = Server()
        self.connections = {
            name: SimpleNamespace(problem="", loading=False, client=Server()) for name in "abc"
        }
        self.told: list[OwnerKey] = []
        self.addresses = {"a": [CLOSED]}
        self.loop = Failover(
            cast("Any", self.own),
            cast("Any", self.informers),
            cast("Any", self.connections),
            addresses=lambda name: self.addresses.get(name, []),
            changed=self.told.append,
        )

    def silence(self, name: str) -> None:
        self.connections[name].problem = "connection refused"
        self.connections[name].client.error = errors.Unreachable("connection refused")

    async def look(self, times: int) -> None:
        for _ in range(times):
            await self.loop.look()
            await asyncio.sleep(5)

    def of(self, kind: type[ModelDeployment] | type[InferenceCluster], at: int = 0) -> Watched | None:
        owner = decode_as(kind, self.informers[kind.__name__][at])
        if isinstance(owner, ModelDeployment):
            return self.loop.of_deployment(owner)
        return self.loop.of_cluster(owner)


ENGINES = [
    {
        "name": "main",
        "members": [
            {
                "role": "Standalone",
                "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}]},
                "template": {
                    "spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]}
                },
            }
        ],
    }
]


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[:2]


@pytest.mark.virtual_time
async def test_a_cluster_is_lost_once_neither_its_server_nor_its_replicas_answer() -> None:
    bench = Bench()
    bench.silence("a")
    await bench.look(1)
    assert bench.loop.states == {
        "a": ClusterState.SUSPECT,
        "b": ClusterState.REACHABLE,
        "c": ClusterState.REACHABLE,
    }
    await bench.look(2)
    assert bench.loop.states["a"] is ClusterState.LOST
    assert bench.of(ModelDeployment) == Watched()
    await bench.look(2)
    silent = "the API server doesn't respond: connection refused"
    cause = f"{silent} and none of the replicas' addresses accepts connections"
    assert bench.of(ModelDeployment) == Watched(lost={"a": cause})
    assert bench.told[-1] == OwnerKey("ModelDeployment", "ml-team", "qwen")
    assert OwnerKey("InferenceCluster", "", "a") in bench.told


class Stopped:
    """Heartbeats, of which that of cluster ``a`` has stopped."""

    def __init__(self, _client: Any) -> None:
        self.watched = False

    def begin(self) -> None:
        self.watched = True

    async def end(self) -> None:
        self.watched = False

    def of(self, name: str) -> Witness:
        return Witness(Evidence.BAD, "no heartbeat for more than") if name == "a" else Witness()


@pytest.mark.virtual_time
async def test_a_heartbeat_that_stopped_is_the_second_witness_behind_a_load_balancer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The load balancer accepts connections for a cluster that is down."""
    monkeypatch.setattr("modelplane.controllers.decision_loops.failover_loop.Heartbeats", Stopped)
    bench = Bench()
    heartbeats = cast("Stopped", bench.loop._heartbeats)
    async with listening() as address:
        bench.addresses["a"] = [address]
        await bench.look(1)
        assert heartbeats.watched
        assert bench.loop.states == {
            "a": ClusterState.SUSPECT,
            "b": ClusterState.REACHABLE,
            "c": ClusterState.REACHABLE,
        }
        bench.silence("a")
        await bench.look(4)
        assert bench.loop.states["a"] is ClusterState.LOST
        assert "no heartbeat for more than" in (bench.of(ModelDeployment) or Watched()).lost["a"]
    del bench.wanted["spec"]["failover"]
    await bench.look(1)
    assert not heartbeats.watched


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("problem", "error"),
    [
        pytest.param("forbidden", errors.Forbidden(403, "Forbidden", "no"), id="refused"),
        pytest.param("the watch was closed", None, id="answers again"),
    ],
)
async def test_a_problem_that_is_no_silence_is_no_evidence(
    problem: str, error: errors.KubernetesError | None
) -> None:
    bench = Bench()
    bench.connections["a"].problem, bench.connections["a"].client.error = problem, error
    await bench.look(4)
    assert bench.loop.states["a"] is ClusterState.SUSPECT, "only its replicas do not answer"


@pytest.mark.virtual_time
async def test_a_cluster_without_a_usable_kubeconfig_is_not_silent() -> None:
    bench = Bench()
    bench.addresses = {}
    del bench.connections["a"]
    await bench.look(4)
    assert bench.loop.states["a"] is ClusterState.REACHABLE


@pytest.mark.virtual_time
async def test_a_control_plane_that_does_not_answer_judges_nothing() -> None:
    bench = Bench()
    bench.silence("a")
    await bench.look(5)
    bench.own.error = errors.Unreachable("timed out")
    await bench.look(1)
    assert bench.loop.paused is True
    why = "the control plane cannot judge clusters: its own API server doesn't respond in time: timed out"
    assert bench.of(ModelDeployment) == Watched(paused=why)


@pytest.mark.virtual_time
async def test_without_a_deployment_that_asks_nothing_is_watched_and_nobody_told() -> None:
    bench = Bench(failover=False)
    bench.silence("a")
    await bench.look(5)
    assert (bench.told, bench.own.asked, bench.loop.states, bench.loop.paused) == ([], 0, {}, None)
    assert bench.of(InferenceCluster) is None


@pytest.mark.virtual_time
async def test_what_was_told_is_taken_back_when_nobody_asks_any_more() -> None:
    bench = Bench()
    bench.silence("a")
    await bench.look(5)
    bench.told.clear()
    del bench.wanted["spec"]["failover"]
    await bench.look(1)
    assert bench.of(InferenceCluster) is None
    assert OwnerKey("InferenceCluster", "", "a") in bench.told


async def test_one_address_that_accepts_is_enough_and_three_rounds_without_are_needed() -> None:
    path = DataPath()
    async with listening() as open_:
        await path.look({"a": [CLOSED, open_], "b": [CLOSED], "c": []})
        assert [path.of(name).evidence for name in "abc"] == [Evidence.GOOD, *[Evidence.UNKNOWN] * 2]
    for _ in range(2):
        await path.look({"a": [CLOSED, open_], "b": [CLOSED]})
    assert [path.of(name).evidence for name in "ab"] == [Evidence.GOOD, Evidence.BAD]
    await path.look({"a": [CLOSED, open_]})
    assert [path.of(name).evidence for name in "ab"] == [Evidence.BAD, Evidence.UNKNOWN]


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(("a" * 64 + ".example", 80), id="a label that is too long"),
        pytest.param(("a..b", 80), id="an empty label"),
        pytest.param(("a\0b", 80), id="a zero byte"),
        pytest.param(("127.0.0.1", 99999), id="no port"),
    ],
)
async def test_an_address_that_cannot_be_dialed_hides_no_other_cluster(hostile: tuple[str, int]) -> None:
    path = DataPath()
    async with listening() as open_:
        await path.look({"a": [hostile], "b": [open_]})
    assert [path.of(name).evidence for name in "ab"] == [Evidence.UNKNOWN, Evidence.GOOD]


@pytest.mark.parametrize(
    ("gateway", "addresses"),
    [
        pytest.param(None, (), id="no gateway yet"),
        pytest.param({"address": "gw.example"}, (("gw.example", 80),), id="plain HTTP"),
        pytest.param({"address": "gw.example", "serverName": "x"}, (("gw.example", 443),), id="mutual TLS"),
        pytest.param({"address": "[2001:db8::1]:8080"}, (("2001:db8::1", 8080),), id="an address and a port"),
        pytest.param({"address": "[::1"}, (), id="half an address"),
        pytest.param({"address": "gw.example:x"}, (), id="no number"),
        pytest.param({"address": "gw.example:99999"}, (), id="no port"),
    ],
)
def test_the_address_of_a_gateway_is_that_of_its_status(
    gateway: dict[str, str] | None, addresses: tuple[tuple[str, int], ...]
) -> None:
    assert gateway_addresses({"status": {"gateway": gateway} if gateway else {}}) == addresses
