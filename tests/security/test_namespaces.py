"""Namespaces on clusters: no team writes into another's namespace, or reads its Secrets."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Keep, Request, Unknown
from modelplane.compose.facts import CacheFacts
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import of_row
from modelplane.kube import resources
from modelplane.local import binary
from modelplane.local.home import Home
from support.attacked import Attacked, attacked
from support.fleets import ControlPlane, control_plane_of
from support.replicas import cluster, composed, engine, member, replica

NAMED = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "prometheus", "key": "token"}}}
REMEDY = (
    'Namespace "ml-team" on cluster "east" does not belong to Modelplane, so nothing is written to it: ask '
    "the cluster's administrator to run `kubectl label namespace ml-team "
    "modelplane.ai/managed-by=modelplane`"
)


def namespace(uid: str = "there", **own: str) -> tuple[dict[str, Any], ...]:
    metadata = {"name": "ml-team", "uid": uid, "labels": own}
    return ({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},)


OURS = namespace(**{labels.MANAGED_BY: "modelplane"})


def accepted(composition: Composition) -> tuple[bool, str, str]:
    said = next(each for each in composition.conditions if each.type == "ModelAccepted")
    return said.holds, said.reason, said.message


@pytest.mark.parametrize(
    ("found", "home"),
    [
        pytest.param((), (), id="it is missing, and will be made"),
        pytest.param(OURS, (), id="it has the label"),
        pytest.param(namespace("same"), namespace("same"), id="the cluster is the control plane"),
    ],
)
def test_a_namespace_of_modelplane_is_written_into(found: Any, home: Any) -> None:
    assert accepted(composed(replica(), None, **{"namespace-east": found, "own-namespace": home}))[1] == (
        "Deploying"
    )


@pytest.mark.parametrize(
    "found", [namespace(), namespace(**{labels.MANAGED_BY: "helm"}), namespace(team="monitoring")]
)
def test_nothing_is_written_into_a_namespace_of_another_and_what_is_there_stays(found: Any) -> None:
    written = (each for each in composed(replica()).children if isinstance(each, Desired))
    there = {each.key: each.manifest for each in written if each.key == "model-serving-qwen"}
    for observed in ({}, there):
        required = {"namespace-east": found, "own-namespace": namespace("home")}
        said = composed(replica(), observed, **required)
        assert accepted(said) == (False, "NamespaceNotLabeled", REMEDY)
        assert said.children == tuple(map(Keep, observed))


def test_a_namespace_that_cannot_be_read_is_not_written_into() -> None:
    said = composed(replica(), None, **{"namespace-east": Unknown("namespaces is forbidden")})
    message = 'cannot read Namespace "ml-team" on cluster "east": namespaces is forbidden'
    assert accepted(said) == (False, "WaitingForCluster", message)
    assert said.children == ()


def test_a_cache_is_not_staged_in_a_namespace_of_another() -> None:
    composer = COMPOSERS["ModelCache"]
    owner = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "weights", "namespace": "ml-team", "uid": "uid"},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 1}},
        "status": {"clusters": [{"name": "east"}]},
    }
    decoded = decode_as(composer.type, owner)
    found: dict[str, Any] = {each.key: () for each in composer.requirements(decoded)}
    shared = cluster()
    shared["status"]["cache"] = {"storageClassName": "shared"}
    said = composer.compose(
        Request(decoded, {}, found | {"clusters": (shared,), "namespace-east": namespace()}, CacheFacts())
    )
    assert isinstance(said, Composition)
    assert [each for each in said.children if not isinstance(each, Keep)] == []
    assert said.status["clusters"] == [{"name": "east", "phase": "Pending", "message": REMEDY}]


def test_a_name_without_an_original_is_not_passed_on() -> None:
    said = composed(replica(engine("qwen", member(env=[NAMED]))))
    message = (
        'the pods refer to Secret "prometheus" in namespace "ml-team", which does not exist: create it, or '
        'ask the platform team to list it in spec.localObjects of InferenceCluster "east"'
    )
    assert accepted(said) == (False, "NotFound", message)
    assert said.children == ()


def test_an_optional_name_without_an_original_leads_nowhere() -> None:
    source = {"secretKeyRef": {"name": "prometheus", "key": "token", "optional": True}}
    said = composed(replica(engine("qwen", member(env=[{"name": "TOKEN", "valueFrom": source}]))))
    assert "'name': 'prometheus'" not in str(said.children)


def test_the_platform_team_leaves_a_name_to_the_cluster() -> None:
    listed = cluster()
    listed["spec"]["localObjects"] = [{"kind": "Secret", "name": "prometheus"}]
    said = composed(replica(engine("qwen", member(env=[NAMED]))), None, cluster=(listed,))
    assert "'name': 'prometheus'" in str(said.children)


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, ControlPlane]]:
    built = binary.find_or_build(lambda _progress: None)
    homes = [Home(tmp_path_factory.mktemp(name)) for name in ("control-plane", "cluster")]
    with control_plane_of(homes[0], built) as control_plane, control_plane_of(homes[1], built) as cluster:
        yield control_plane, cluster


@pytest.fixture
async def plane(planes: tuple[ControlPlane, ControlPlane]) -> AsyncIterator[Attacked]:
    async with attacked(*planes) as prepared:
        yield prepared


@pytest.mark.kubernetes
@pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning")
async def test_a_team_of_a_clusters_namespace_name_gets_nothing_there(plane: Attacked) -> None:
    taken = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "prometheus", "namespace": "monitoring"},
        "stringData": {"token": "s3cret"},
    }
    await plane.cluster.create(taken)
    await plane.cluster.create(secret)
    before = await contents(plane, "monitoring")
    async with plane.controllers():
        await plane.deploy("thief", "monitoring", env=[NAMED])
        name = await plane.replica("monitoring")
        replicas = (fleet_resources.MODEL_REPLICAS, name, "ModelAccepted")
        await plane.until_said(*replicas, "kubectl label namespace monitoring", "monitoring", status="False")
        assert await contents(plane, "monitoring") == before
        own = {"metadata": {"labels": {labels.MANAGED_BY: "modelplane"}}}
        await plane.cluster.patch(resources.NAMESPACES, "monitoring", own)
        await plane.until_said(
            *replicas, 'the pods refer to Secret "prometheus"', "monitoring", status="False"
        )
        assert await contents(plane, "monitoring") == before
        await plane.deploy("model", "team")
        await plane.until_placed("model", "team")
    made = await plane.cluster.get(resources.NAMESPACES, "team")
    assert made is not None
    assert (
        made["metadata"]["labels"].items()
        >= {
            labels.MANAGED_BY: "modelplane",
            "pod-security.kubernetes.io/enforce": "baseline",
        }.items()
    )


async def contents(plane: Attacked, namespace: str) -> set[tuple[str, str]]:
    """Return what a namespace of the cluster has, of the kinds that Modelplane writes.

    Without what Kubernetes puts into every namespace, a moment after it was created.
    """
    own = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
    return {
        (item["kind"], item["metadata"]["name"])
        for row in rows(Place.CLUSTERS)
        if row.namespaced and await plane.cluster.is_served(of_row(row))
        for item in (await plane.cluster.list(of_row(row), namespace)).items
    } - own
