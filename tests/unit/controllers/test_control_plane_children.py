"""A kind of others, invented here in one row, is composed on the control plane."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.api import labels
from modelplane.compose import workload_kinds
from modelplane.compose.composition import Composition, Desired, NoRow
from modelplane.compose.readiness import exists, is_ready
from modelplane.compose.workload_kinds import Place, WorkloadKind
from modelplane.compose.workload_readiness import InPhase
from modelplane.controllers.child_writer import ChildWriter
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.watches import child_kinds
from modelplane.controllers.fleet_resources import of_row
from modelplane.controllers.status_writer import StatusWriter
from modelplane.install import cluster_requirements, identity_permissions
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from support.helm import no_releases
from support.rejections import message_of

pytestmark = pytest.mark.virtual_time

BUCKET = WorkloadKind(
    "storage.example.com",
    "v1",
    "Bucket",
    "buckets",
    "Weights are kept in buckets.",
    place=Place.CONTROL_PLANE,
    ready=InPhase("Bound"),
)
OTHER = replace(BUCKET, group="other.example.com")
PATH = "/apis/storage.example.com/v1/namespaces/n/buckets"
OWNER: Object = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelCache",
    "metadata": {"name": "owner", "namespace": "n", "uid": "u", "resourceVersion": "1"},
    "spec": {},
}


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> WorkloadKind:
    for each in (BUCKET, OTHER):
        monkeypatch.setitem(workload_kinds.ROWS, (each.api_version, each.kind), each)
    return BUCKET


@pytest.fixture
async def definitions(client: Client) -> Informer:
    return Informer(client, resources.CUSTOM_RESOURCE_DEFINITIONS)


def _install(definitions: Informer, row: WorkloadKind) -> None:
    metadata = {"name": row.definition, "uid": row.definition, "resourceVersion": "1"}
    definitions.remember(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
    )


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def children(
    client: Client, definitions: Informer, told: list[str]
) -> AsyncIterator[ControlPlaneChildren]:
    watched = ControlPlaneChildren(
        client, {}, definitions, lambda item: told.append(item["metadata"]["name"])
    )
    yield watched
    await watched.close()


@pytest.fixture
def writer(client: Client, clusters: Clusters, children: ControlPlaneChildren) -> ChildWriter:
    return ChildWriter(client, {}, clusters, children, no_releases(clusters), StatusWriter(client, {}))


def _desired(key: str, size: int = 1, row: WorkloadKind = BUCKET) -> Desired:
    manifest = {
        "apiVersion": row.api_version,
        "kind": row.kind,
        "metadata": {"name": key.partition("-")[0], "namespace": "n"},
        "spec": {"size": size},
    }
    return Desired(key, manifest, is_ready)


def _live(key: str, **metadata: Any) -> Object:
    own = {
        "uid": f"uid-{key}",
        "resourceVersion": "5",
        "labels": {labels.MANAGED_BY: "modelplane"},
        "annotations": {labels.CHILD: key},
        "ownerReferences": [{"kind": "ModelCache", "name": "owner", "uid": "u", "controller": True}],
    }
    manifest = _desired(key).manifest
    return {**manifest, "metadata": manifest["metadata"] | own | metadata}


async def test_it_is_written_with_its_owner_observed_corrected_and_pruned(
    plane: Any, definitions: Informer, children: ControlPlaneChildren, writer: ChildWriter
) -> None:
    _install(definitions, BUCKET)
    await children.start()
    assert await writer.write(OWNER, {}, Composition((_desired("a"), _desired("b")))) is None
    [first, _] = plane.writes
    [reference] = first[3]["metadata"]["ownerReferences"]
    assert (first[0], first[1], first[2]["force"]) == ("PATCH", f"{PATH}/a", "false")
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("ModelCache", "u", True)
    plane.writes.clear()
    observed = children.index.keyed("u")
    assert sorted(observed) == ["a", "b"]
    assert await writer.write(OWNER, observed, Composition((_desired("a", size=2),))) is None
    assert [(method, path) for method, path, _, _ in plane.writes] == [
        ("PATCH", f"{PATH}/a"),
        ("DELETE", f"{PATH}/b"),
    ]


async def test_it_is_found_again_after_a_restart_and_its_changes_are_told(
    plane: Any, definitions: Informer, children: ControlPlaneChildren, told: list[str]
) -> None:
    plane.has([_live("a")])
    _install(definitions, BUCKET)
    await children.start()
    assert sorted(children.index.keyed("u")) == ["a"]
    children.informer(_live("b")).remember(_live("b", resourceVersion="2000"))
    assert told == ["a", "b"]
    assert sorted(children.index.keyed("u")) == ["a", "b"]


async def test_a_kind_that_is_not_installed_is_named_and_written_once_it_is(
    plane: Any, definitions: Informer, children: ControlPlaneChildren, writer: ChildWriter, told: list[str]
) -> None:
    assert message_of(await writer.write(OWNER, {}, Composition((_desired("a"),)))) == (
        'cannot write Bucket "n/a": kind Bucket of storage.example.com/v1 is not installed: '
        "apply its CustomResourceDefinition"
    )
    assert (plane.writes, told) == ([], [])
    _install(definitions, BUCKET)
    await children.start()
    await asyncio.sleep(1)
    assert told == ["a"], "its owner need not wait for the next attempt"
    assert await writer.write(OWNER, {}, Composition((_desired("a"),))) is None
    assert plane.wrote("PATCH") == [f"{PATH}/a"]


async def test_a_kind_that_cannot_be_read_is_not_written(
    plane: Any, definitions: Informer, children: ControlPlaneChildren, writer: ChildWriter
) -> None:
    plane.refuse("GET", of_row(BUCKET).build_path(), 403, "buckets is forbidden")
    _install(definitions, BUCKET)
    await children.start()
    problem = message_of(await writer.write(OWNER, {}, Composition((_desired("a"),))))
    assert problem == 'cannot write Bucket "n/a": cannot read buckets: buckets is forbidden'
    assert plane.writes == []


async def test_kinds_of_one_name_of_two_groups_are_kept_apart(
    definitions: Informer, children: ControlPlaneChildren, writer: ChildWriter
) -> None:
    _install(definitions, BUCKET)
    _install(definitions, OTHER)
    await children.start()
    both = Composition((_desired("a"), _desired("a-other", row=OTHER)))
    assert await writer.write(OWNER, {}, both) is None
    assert sorted(children.index.keyed("u")) == ["a", "a-other"]


def test_it_is_permitted_on_the_control_plane_and_nowhere_else(row: WorkloadKind) -> None:
    [rule] = [each for each in identity_permissions.list_control_plane_rules() if each.group == row.group]
    assert (rule.resources, rule.verbs) == (("buckets",), ("list", "watch", "create", "patch", "delete"))
    granted = [each for role in cluster_requirements.build_manifests() for each in role.get("rules", ())]
    assert row.group not in {group for each in granted for group in each["apiGroups"]}


def test_it_is_neither_written_to_clusters_nor_looked_for_there(row: WorkloadKind) -> None:
    assert of_row(row) not in child_kinds()
    with pytest.raises(NoRow):
        Desired("a", _desired("a").manifest, exists, "east")


@pytest.mark.parametrize(("phase", "ready"), [("Bound", True), ("Pending", False)])
def test_its_readiness_is_read(phase: str, ready: bool) -> None:
    assert is_ready({**_desired("a").manifest, "status": {"phase": phase}}) is ready
