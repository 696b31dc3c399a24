"""The controllers on a real control plane, with the test in the kubelet's place.

No node exists here, so a pod serves when the test says so.
"""

import asyncio
import base64
import gc
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.compose.readiness import condition_of
from modelplane.controllers import finalizer, fleet_resources
from modelplane.controllers.child_writer import delete
from modelplane.controllers.children import ownership
from modelplane.controllers.clusters import connections, watch_health
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy.proxies import GatewayDirectory
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import eventually
from support.pod_reports import report

# Where controllers stop while they connect, httpcore2 leaves a connection whose TLS handshake is cancelled to
# the garbage collector.
pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

CHILDREN = (
    fleet_resources.MODEL_REPLICAS,
    fleet_resources.MODEL_ENDPOINTS,
    resources.DEPLOYMENTS,
    resources.SERVICES,
    resources.HTTP_ROUTES,
    resources.RESOURCE_CLAIM_TEMPLATES,
)

EVENTS = resources.Resource("events.k8s.io", "v1", "Event", "events")
GRACE_S = 4.0
"""Time after which a deleted cluster is given up here, in place of five minutes."""


class Bench:
    """An administrator's hands on the control plane."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def deployment(self, memory: str = "1Gi", replicas: int = 1) -> None:
        """Apply a deployment whose engine needs that much device memory, and a service over it."""
        await self.client.apply(
            self._of("ModelDeployment", {"replicas": replicas, "engines": _engines(memory)})
        )
        await self.client.apply(
            self._of(
                "ModelService",
                {"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": "model"}}}]},
            )
        )

    def _of(self, kind: str, spec: Object, name: str = "model") -> Object:
        return {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }

    async def get(self, resource: resources.Resource, name: str = "model") -> Object:
        found = await self.client.get(resource, name, self.namespace if resource.namespaced else None)
        assert found is not None, f"{resource.kind} {name}"
        return found

    async def children(self) -> dict[tuple[str, str], str]:
        """Return every child by kind and name, with its resource version."""
        return {
            (item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
            for resource in CHILDREN
            for item in (await self.client.list(resource, self.namespace)).items
        }

    async def served(self) -> None:
        """Deploy the model and bring its service up."""
        await self.deployment()
        await self.serve()
        await self.condition(fleet_resources.MODEL_SERVICES, "Ready", "True")

    async def looked_at(self) -> None:
        """Wait until the controllers have reconciled what changed before.

        Owners come to their queue in the order of their changes, so those that are created now come last.
        """
        probes = (
            (fleet_resources.MODEL_DEPLOYMENTS, {"replicas": 0, "engines": _engines("1Gi")}),
            (
                fleet_resources.MODEL_SERVICES,
                {"endpoints": [{"selector": {"matchLabels": {"probe": "true"}}}]},
            ),
        )
        for _ in range(2):
            for resource, spec in probes:
                await self.client.apply(self._of(resource.kind, spec, "probe"))
            for resource, _spec in probes:
                await eventually(partial(self._has_status, resource))
            for resource, _spec in probes:
                await self.client.delete(resource, "probe", self.namespace)
                await eventually(partial(self._is_gone, resource))

    async def _has_status(self, resource: resources.Resource) -> bool:
        return bool((await self.get(resource, "probe")).get("status", {}).get("conditions"))

    async def _is_gone(self, resource: resources.Resource) -> bool:
        return await self.client.get(resource, "probe", self.namespace) is None

    async def serve(self, ready: bool = True) -> None:
        """Report every pod as ready or not, as a kubelet would."""

        async def some_pod() -> bool:
            return bool((await self.client.list(resources.PODS, self.namespace)).items)

        await eventually(some_pod)
        for pod in (await self.client.list(resources.PODS, self.namespace)).items:
            await report(self.client, pod, ready=ready)

    async def report(self, resource: resources.Resource, item: Object, status: Object) -> None:
        """Write a status, as whoever provides the volume or runs the pod would."""
        name = item["metadata"]["name"]
        body = {"status": status}
        await self.client.patch(resource, name, body, self.namespace, kind="strategic", subresource="status")

    async def condition(self, resource: resources.Resource, type_: str, status: str) -> str:
        """Wait until a condition of the object named ``model`` has a status; return its message."""

        async def reached() -> bool:
            found = condition_of(await self.get(resource), type_)
            return found.get("status") == status

        await eventually(reached)
        return str(condition_of(await self.get(resource), type_).get("message", ""))


def _engines(memory: str) -> list[Object]:
    selector = f'device.capacity["test.example"].memory.compareTo(quantity("{memory}")) >= 0'
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    return [{"name": "engine", "members": [member]}]


def _fleet(kubeconfig: Path) -> list[Object]:
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    encoded = base64.b64encode(kubeconfig.read_bytes()).decode()
    return [
        _cluster_scoped("InferenceClass", "test", {"devices": [device]}),
        _cluster_scoped("InferenceGateway", "default", {"backend": "Envoy"}),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "test-kubeconfig", "namespace": "modelplane-system"},
            "data": {"kubeconfig": encoded},
        },
        _cluster_scoped(
            "InferenceCluster",
            "test",
            {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "test-kubeconfig"}}},
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": "pool", "className": "test", "nodeCount": 8}],
            },
        ),
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
            "spec": {
                "gatewayClassName": "modelplane",
                "listeners": [{"name": "http", "port": 8081, "protocol": "HTTP"}],
            },
        },
    ]


def _cluster_scoped(kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def controllers(control_plane: ControlPlane) -> AbstractAsyncContextManager[None]:
    """Run the controllers with the gateway of a fleet on one machine."""
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    return running_controllers(control_plane, proxy)


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own, which other modules find nothing of."""
    return own_control_plane


@pytest.fixture
async def bench(
    control_plane: ControlPlane, client: Client, request: pytest.FixtureRequest
) -> AsyncIterator[Bench]:
    await create_missing(client, [crd(kind) for kind in KINDS] + cluster_objects.load_gateway_api())
    for manifest in [
        *cluster_objects.build_manifests(),
        *_fleet(control_plane.home.controller_kubeconfig),
    ]:
        await client.apply(manifest)
    namespace = f"team-{abs(hash(request.node.name)) % 10**8}"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield Bench(client, namespace)
    # Not the namespace: Kubernetes takes ten seconds over one, and the next test has another.
    async with controllers(control_plane):
        for resource in (fleet_resources.MODEL_SERVICES, fleet_resources.MODEL_DEPLOYMENTS):
            await client.delete(resource, "model", namespace)

        async def gone() -> bool:
            return not (await client.list(resources.DEPLOYMENTS, namespace)).items

        await eventually(gone)


async def test_a_deployment_serves_once_its_pod_does(control_plane: ControlPlane, bench: Bench) -> None:
    async with controllers(control_plane):
        await bench.deployment()
        message = await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "ReplicasScheduled", "True")
        assert message == "1 of 1 replicas placed, on test"
        assert (await bench.client.list(fleet_resources.MODEL_ENDPOINTS, bench.namespace)).items == ()
        await bench.serve()
        await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "Ready", "True")
        await bench.condition(fleet_resources.MODEL_SERVICES, "Ready", "True")
        service = await bench.get(fleet_resources.MODEL_SERVICES)
        assert service["status"]["address"] == f"http://127.0.0.1:8080/{bench.namespace}/model"
        [endpoint] = (await bench.client.list(fleet_resources.MODEL_ENDPOINTS, bench.namespace)).items
        assert endpoint["spec"]["rewritePath"] == f"/{bench.namespace}/{endpoint['metadata']['name']}/"
        await bench.serve(ready=False)
        await bench.condition(fleet_resources.MODEL_SERVICES, "Ready", "False")
        assert (await bench.get(fleet_resources.MODEL_SERVICES))["status"]["address"], "the address stays"


async def test_controllers_that_restart_write_nothing(control_plane: ControlPlane, bench: Bench) -> None:
    async with controllers(control_plane):
        await bench.served()
        await bench.looked_at()
    before = await bench.children()
    owner = await bench.get(fleet_resources.MODEL_DEPLOYMENTS)
    async with controllers(control_plane):
        await bench.looked_at()
        assert await bench.children() == before
        assert await bench.get(fleet_resources.MODEL_DEPLOYMENTS) == owner


async def test_a_restart_half_way_makes_no_second_replica(control_plane: ControlPlane, bench: Bench) -> None:
    for _ in range(5):
        async with controllers(control_plane):
            await bench.deployment(replicas=3)
            await asyncio.sleep(0.12)
        gc.collect()
    async with controllers(control_plane):
        await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "ReplicasScheduled", "True")

        async def three_workloads() -> bool:
            return len((await bench.client.list(resources.DEPLOYMENTS, bench.namespace)).items) == 3

        await eventually(three_workloads)
        assert len((await bench.client.list(fleet_resources.MODEL_REPLICAS, bench.namespace)).items) == 3


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        pytest.param("100Gi", "InsufficientCapacity", id="asking for more than there is"),
        pytest.param('1Gi" + nonsense', "InvalidNodeSelector", id="a selector with a typo"),
    ],
)
async def test_an_edit_that_cannot_be_met_deletes_nothing(
    control_plane: ControlPlane, bench: Bench, memory: str, reason: str
) -> None:
    async with controllers(control_plane):
        await bench.served()
        before = set(await bench.children())
        await bench.deployment(memory=memory)
        await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "ReplicasScheduled", "False")
        found = condition_of(await bench.get(fleet_resources.MODEL_DEPLOYMENTS), "ReplicasScheduled")
        assert found["reason"] == reason
        await asyncio.sleep(0.5)
        assert set(await bench.children()) == before


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        pytest.param(resources.SECRETS, "test-kubeconfig", id="the cluster's kubeconfig"),
        pytest.param(fleet_resources.INFERENCE_GATEWAYS, "default", id="the gateway"),
    ],
)
async def test_losing_what_it_depends_on_deletes_nothing(
    control_plane: ControlPlane, bench: Bench, resource: resources.Resource, name: str
) -> None:
    async with controllers(control_plane):
        await bench.served()
        before = set(await bench.children())
        namespace = "modelplane-system" if resource.namespaced else None
        await bench.client.delete(resource, name, namespace)
        await bench.looked_at()
        assert set(await bench.children()) == before
    for manifest in _fleet(control_plane.home.controller_kubeconfig):
        await bench.client.apply(manifest)


async def test_a_class_in_use_is_held_until_its_cluster_is_gone(
    control_plane: ControlPlane, bench: Bench
) -> None:
    device = {"name": "gpu", "driver": "test.example", "deviceClassName": "test.example"}
    cluster = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "absent"}}},
        "servingStack": {"profile": "None"},
        "nodePools": [{"name": "pool", "className": "model", "nodeCount": 1}],
    }
    client = bench.client
    async with controllers(control_plane):
        await client.apply(_cluster_scoped("InferenceClass", "model", {"devices": [device]}))
        await client.apply(_cluster_scoped("InferenceCluster", "model", cluster))

        async def held() -> bool:
            found = await bench.get(fleet_resources.INFERENCE_CLASSES)
            return ownership.IN_USE in found["metadata"].get("finalizers", ())

        await eventually(held)
        await client.delete(fleet_resources.INFERENCE_CLASSES, "model")
        message = await bench.condition(fleet_resources.INFERENCE_CLASSES, "Ready", "False")
        assert message == 'waiting for InferenceCluster "model" to go'
        await client.delete(fleet_resources.INFERENCE_CLUSTERS, "model")

        async def gone() -> bool:
            found = [
                await client.get(each, "model")
                for each in (fleet_resources.INFERENCE_CLASSES, fleet_resources.INFERENCE_CLUSTERS)
            ]
            return found == [None, None]

        await eventually(gone)


async def test_a_cache_is_staged_and_leaves_nothing_when_it_is_deleted(
    control_plane: ControlPlane, bench: Bench
) -> None:
    client, namespace = bench.client, bench.namespace
    [*_, cluster, _gateway] = _fleet(control_plane.home.controller_kubeconfig)
    cluster["spec"]["cluster"]["existing"]["cache"] = {"storageClassName": "shared"}
    await client.apply(cluster)
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": namespace}}
    source = {"repo": "team/model", "sizeGiB": 1, "authSecret": {"name": "token"}}
    async with controllers(control_plane):
        await client.apply(bench._of("ModelCache", {"source": "HuggingFace", "huggingFace": source}))

        async def without_token() -> bool:
            found = condition_of(await bench.get(fleet_resources.MODEL_CACHES), "ArtifactReady")
            return found.get("reason") == "AuthSecretMissing"

        await eventually(without_token)
        await client.apply({**token, "stringData": {"HF_TOKEN": "secret"}})

        async def staging() -> bool:
            both = (resources.PERSISTENT_VOLUME_CLAIMS, resources.PODS)
            return all([(await client.list(each, namespace)).items for each in both])

        await eventually(staging)
        [claim] = (await client.list(resources.PERSISTENT_VOLUME_CLAIMS, namespace)).items
        await bench.report(resources.PERSISTENT_VOLUME_CLAIMS, claim, {"phase": "Bound"})
        [attempt] = (await client.list(resources.PODS, namespace)).items
        await bench.report(resources.PODS, attempt, {"phase": "Succeeded"})
        await bench.condition(fleet_resources.MODEL_CACHES, "Ready", "True")

        async def only_the_volume() -> bool:
            kinds = (resources.JOBS, resources.PODS, resources.SECRETS)
            found = [len((await client.list(each, namespace)).items) for each in kinds]
            return found == [0, 0, 1]

        await eventually(only_the_volume)
    async with controllers(control_plane):
        await bench.looked_at()
        assert not (await client.list(resources.JOBS, namespace)).items, "what is staged stays staged"
        await client.delete(fleet_resources.MODEL_CACHES, "model", namespace)

        async def let_go() -> bool:
            return await client.get(fleet_resources.MODEL_CACHES, "model", namespace) is None

        await eventually(let_go)
        assert not (await client.list(resources.PERSISTENT_VOLUME_CLAIMS, namespace)).items


async def test_scaling_down_withdraws_the_endpoint_and_then_the_replica(
    control_plane: ControlPlane, bench: Bench
) -> None:
    async with controllers(control_plane):
        await bench.deployment(replicas=2)

        async def two_pods() -> bool:
            return len((await bench.client.list(resources.PODS, bench.namespace)).items) == 2

        await eventually(two_pods)
        await bench.serve()
        await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "Ready", "True")
        await bench.deployment(replicas=1)

        async def one_of_each() -> bool:
            counts = [len((await bench.client.list(each, bench.namespace)).items) for each in CHILDREN]
            return counts == [1] * len(CHILDREN)

        await eventually(one_of_each)
        await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "Ready", "True")


async def test_a_deleted_deployment_leaves_nothing(control_plane: ControlPlane, bench: Bench) -> None:
    async with controllers(control_plane):
        await bench.served()
        await bench.client.delete(fleet_resources.MODEL_DEPLOYMENTS, "model", bench.namespace)

        async def nothing() -> bool:
            left: dict[Any, str] = await bench.children()
            return not left

        await eventually(nothing)


@pytest.mark.parametrize("first", ["InferenceCluster", "ModelDeployment", "Namespace"])
async def test_without_its_kubeconfig_a_deleted_cluster_is_given_up_after_its_time_and_with_an_event(
    control_plane: ControlPlane, bench: Bench, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controllers that restart without the Secret know nothing of the cluster, whose engine runs on."""
    for module in (connections, finalizer, watch_health):
        monkeypatch.setattr(module, "LOST_S", GRACE_S)
    client, namespace = bench.client, bench.namespace
    async with controllers(control_plane):
        await bench.served()
    [replica] = (await client.list(fleet_resources.MODEL_REPLICAS, namespace)).items
    await client.delete(resources.SECRETS, "test-kubeconfig", "modelplane-system")
    deletions = [
        (fleet_resources.INFERENCE_CLUSTERS, "test", None),
        (fleet_resources.MODEL_DEPLOYMENTS, "model", namespace),
    ]
    if first == "Namespace":
        deletions = [(resources.NAMESPACES, namespace, None), *deletions[:1]]
    elif first == "ModelDeployment":
        deletions.reverse()

    async def held() -> bool:
        found = await client.get(fleet_resources.INFERENCE_CLUSTERS, "test")
        assert found is not None, "released without its time"
        message = condition_of(found, "Ready").get("message", "")
        return "ModelReplica" in message and "the cluster cannot be reached (" in message

    async def released() -> bool:
        found = [
            await client.get(fleet_resources.INFERENCE_CLUSTERS, "test"),
            *(await client.list(fleet_resources.MODEL_REPLICAS, namespace)).items,
        ]
        return not any(found)

    async with controllers(control_plane):
        for resource, name, place in deletions:
            await client.delete(resource, name, place)
        await eventually(held)
        cluster = await client.get(fleet_resources.INFERENCE_CLUSTERS, "test")
    # Killed in the middle: what it had waited does not shorten the time.
    async with controllers(control_plane):
        began = time.monotonic()
        await eventually(released)
        assert time.monotonic() - began >= GRACE_S
    warnings = [
        event
        for event in (await client.list(EVENTS, "default")).items
        if cluster
        and event["regarding"].get("uid") == cluster["metadata"]["uid"]
        and event["reason"] == "Abandoned"
    ]
    assert warnings
    for event in warnings:
        assert event["type"] == "Warning"
        assert f'ModelReplica "{namespace}/{replica["metadata"]["name"]}"' in event["note"]
    if first != "Namespace":
        [engine] = (await client.list(resources.DEPLOYMENTS, namespace)).items
        await delete(client, engine)


async def test_an_object_that_somebody_changed_is_put_right(
    control_plane: ControlPlane, bench: Bench
) -> None:
    async with controllers(control_plane):
        await bench.deployment()

        async def written() -> bool:
            return bool((await bench.client.list(resources.DEPLOYMENTS, bench.namespace)).items)

        await eventually(written)
        [workload] = (await bench.client.list(resources.DEPLOYMENTS, bench.namespace)).items
        name = workload["metadata"]["name"]
        await bench.client.patch(resources.DEPLOYMENTS, name, {"spec": {"replicas": 5}}, bench.namespace)

        async def back() -> bool:
            found = await bench.get(resources.DEPLOYMENTS, name)
            return bool(found["spec"]["replicas"] == 1)

        await eventually(back)
