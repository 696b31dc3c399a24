"""One row says what a kind of children on clusters is, and everything else follows it."""

from typing import Any

import msgspec
import pytest

from modelplane.api import labels
from modelplane.api.inference_cluster import Capabilities, InferenceCluster
from modelplane.api.schema.decode import decode_as
from modelplane.compose import workload_kinds
from modelplane.compose.cluster import inference_cluster
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.composition import Desired, NoRow, Request, Requirement
from modelplane.compose.readiness import exists, is_ready
from modelplane.compose.workload_kinds import WorkloadKind
from modelplane.compose.workload_readiness import Copies
from modelplane.controllers.child_writer import delete
from modelplane.controllers.clusters.connections import Clusters
from modelplane.crossplane.function import remote_objects
from modelplane.install import cluster_requirements as registration
from modelplane.kube import resources

ORBIT = WorkloadKind(
    "orbits.example.com",
    "v1",
    "Orbit",
    "orbits",
    "Engines that go round.",
    ready=Copies("turning"),
    pods=("orbits.example.com/orbit",),
    capability="orbit",
)
MANIFEST: dict[str, Any] = {
    "apiVersion": "orbits.example.com/v1",
    "kind": "Orbit",
    "metadata": {
        "name": "o",
        "namespace": "ml",
        "uid": "uid-o",
        "resourceVersion": "5",
        "labels": {labels.MANAGED_BY: "modelplane", labels.OWNER_UID: "u"},
    },
}
PATH = "/apis/orbits.example.com/v1/orbits"


@pytest.fixture
def orbit(monkeypatch: pytest.MonkeyPatch) -> WorkloadKind:
    """A kind that nobody has heard of, as a row."""
    monkeypatch.setitem(workload_kinds.ROWS, (ORBIT.api_version, ORBIT.kind), ORBIT)
    return ORBIT


def test_a_child_of_a_kind_without_a_row_cannot_be_composed_for_a_cluster() -> None:
    with pytest.raises(NoRow, match='child "key" for cluster "east" is of kind "Orbit"'):
        Desired("key", MANIFEST, exists, "east")
    assert Desired("key", MANIFEST, exists).cluster == "", "the control plane finds its own by their owner"


@pytest.mark.usefixtures("orbit")
def test_an_invented_kind_is_composed() -> None:
    assert Desired("key", MANIFEST, exists, "east").manifest is MANIFEST


async def test_an_invented_kind_is_watched_with_its_pods(
    orbit: WorkloadKind, clusters: Clusters, east: Any, connected: Any
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": dict.fromkeys(orbit.pods, "o")},
    }
    east.has([MANIFEST, pod])
    connection = await connected(clusters, "east", east)
    assert [child["metadata"]["name"] for child in connection.children.of("u")] == ["o"]
    wanted = Requirement("pods", "v1", "Pod", labels=dict.fromkeys(orbit.pods, "o"), cluster="east")
    assert clusters.find(wanted) == (pod,)


@pytest.mark.usefixtures("orbit")
async def test_an_invented_kind_is_watched_from_the_first_write_on(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    await connection.apply(MANIFEST, force=False)
    assert [child["metadata"]["name"] for child in connection.children.of("u")] == ["o"]


async def test_an_invented_kind_is_looked_for_when_its_owner_is_gone_and_deleted_with_its_pods(
    orbit: WorkloadKind, clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    east.has([MANIFEST])
    [left] = await connection.look_for("u", "ml")
    await delete(connection.client, left)
    [(method, path, params, body)] = east.writes
    assert (method, path) == ("DELETE", f"/apis/{orbit.api_version}/namespaces/ml/orbits/o")
    assert "Foreground" in (params.get("propagationPolicy"), (body or {}).get("propagationPolicy"))


def test_an_invented_kind_is_permitted(orbit: WorkloadKind) -> None:
    roles = [each for each in registration.build_manifests() if each["kind"] == "ClusterRole"]
    [rule] = [each for role in roles for each in role["rules"] if each["apiGroups"] == [orbit.group]]
    assert (rule["resources"], rule["verbs"]) == (["orbits"], ["list", "watch", "create", "patch", "delete"])


async def test_the_definition_of_an_invented_kind_is_watched(
    orbit: WorkloadKind, clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    fields = {resource: slot for resource, slot in connection.watches._informers if slot == orbit.definition}
    assert fields == {resources.CUSTOM_RESOURCE_DEFINITIONS: "orbits.orbits.example.com"}


@pytest.mark.usefixtures("orbit")
@pytest.mark.parametrize("installed", [True, False])
def test_a_cluster_says_whether_it_has_an_invented_kind(installed: bool) -> None:
    owner = decode_as(
        InferenceCluster,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east"},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}},
                "nodePools": [{"name": "p", "className": "c", "nodeCount": 1}],
            },
        },
    )
    needed = {each.key: each for each in inference_cluster.requirements(owner)}
    assert (needed["orbit"].name, needed["orbit"].cluster) == ("orbits.orbits.example.com", "east")
    required: dict[str, Any] = dict.fromkeys(needed, ())
    if installed:
        required["orbit"] = ({"metadata": {"name": needed["orbit"].name}},)
    said = inference_cluster.compose(Request(owner, {}, required, ClusterFacts())).status["capabilities"]
    absent = dict.fromkeys(("leaderWorkerSet", "inferencePool", "llmInferenceService"), False)
    assert said == {"dra": True, **absent, "orbit": installed}


@pytest.mark.usefixtures("orbit")
@pytest.mark.parametrize(("turning", "ready"), [(0, False), (1, True)])
def test_the_readiness_of_an_invented_kind_is_read(turning: int, ready: bool) -> None:
    assert is_ready({**MANIFEST, "status": {"turning": turning}}) is ready


@pytest.mark.usefixtures("orbit")
def test_under_crossplane_the_provider_reads_the_readiness_of_an_invented_kind() -> None:
    spec = remote_objects.write(
        Desired("key", MANIFEST, exists, "east"), remote_objects.Connection("config")
    )["spec"]
    assert spec["forProvider"]["deletionPropagationPolicy"] == "Foreground"
    assert spec["readiness"]["celQuery"] == Copies("turning").query
    assert spec["readiness"]["celQuery"].startswith("has(object.status.turning) && object.status.turning > 0")
    assert spec["watch"] is True


def test_every_capability_of_a_row_is_a_field_of_an_inference_clusters_status() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(Capabilities)}
    assert workload_kinds.capabilities().keys() | {"dra"} == fields


RELEASE = {"apiVersion": "helm.m.crossplane.io/v1beta1", "kind": "Release", "metadata": {"name": "r"}}


def test_a_release_is_for_helm_on_a_cluster_or_on_that_of_the_control_plane() -> None:
    assert [Desired("key", RELEASE, is_ready, cluster).installer for cluster in ("east", "")] == [None, None]


@pytest.mark.parametrize(
    ("kind", "namespace", "may"),
    [
        ("HTTPRoute", "modelplane-system", True),
        ("HTTPRoute", "ml-team", False),
        ("GatewayClass", "", True),
    ],
)
def test_the_gateway_of_the_fleet_has_objects_in_the_systems_namespace_only(
    kind: str, namespace: str, may: bool
) -> None:
    metadata = {"name": "a", "namespace": namespace}
    item = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata}
    assert bool(workload_kinds.on_control_plane(item)) is may


@pytest.mark.parametrize(("status", "ready"), [("False", False), ("True", True)])
def test_a_release_is_ready_as_its_condition_says(status: str, ready: bool) -> None:
    assert is_ready({**RELEASE, "status": {"conditions": [{"type": "Ready", "status": status}]}}) is ready
