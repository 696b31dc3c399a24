"""A restored owner has the objects that were written for it before, and no others."""

import copy
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from modelplane.api import labels
from modelplane.compose.composition import Composition, Desired
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import exists
from modelplane.controllers.child_writer import ChildWriter
from modelplane.controllers.children import adoption, ownership
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.children.ownership import ChildIndex
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.finalizer import Finalizer
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from support.helm import no_releases
from support.rejections import message_of

SERVICE = "/api/v1/namespaces/n/services/s"
REPLICA = "/apis/modelplane.ai/v1alpha1/namespaces/n/modelreplicas/owner"


def owner(former: str = "before", name: str = "owner", namespace: str = "n", uid: str = "now") -> Any:
    """Return a restored replica."""
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1", "generation": 1}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": metadata
        | {"annotations": {labels.FORMER_UIDS: former}, "finalizers": [ownership.FINALIZER]},
        "spec": {"clusterName": "east"},
        "status": {"clusters": ["east"]},
    }


def _service() -> Desired:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "n"},
        "spec": {"ports": [{"port": 80}]},
    }
    return Desired("service", manifest, exists, "east")


def stored(former: str = "before") -> Any:
    """Return the service as it was written for the replica before it was restored."""
    item = copy.deepcopy(ownership.stamp(owner(uid=former), _service()))
    item["metadata"] |= {"uid": "service", "resourceVersion": "9"}
    return item


class Bench:
    """What writes and what finalizes."""

    def __init__(self, client: Client, clusters: Clusters) -> None:
        informers = {
            name: Informer(client, resource_for(row.api_version, name)) for name, row in COMPOSERS.items()
        }
        informers["InferenceCluster"].remember(
            {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "InferenceCluster",
                "metadata": {
                    "name": "east",
                    "uid": "e",
                    "resourceVersion": "1",
                    "finalizers": [ownership.IN_USE],
                },
            }
        )
        definitions = Informer(client, resources.CUSTOM_RESOURCE_DEFINITIONS)
        children = ControlPlaneChildren(client, informers, definitions, lambda _item: None)
        releases, reporter = no_releases(clusters), StatusWriter(client, informers)
        self.writer = ChildWriter(client, informers, clusters, children, releases, reporter)
        self.finalizer = Finalizer(client, informers, clusters, children.index, releases, reporter)


@pytest.fixture
def bench(client: Client, clusters: Clusters) -> Bench:
    return Bench(client, clusters)


COMPOSITION = Composition((_service(),), {"clusters": ["east"]}, ready=True)


async def test_an_object_of_a_former_uid_is_given_the_new_one_and_not_made_again(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    east.has([stored()])
    connection = await connected(clusters, "east", east)
    observed = adoption.keyed(owner(), connection.children)
    assert observed == {"service": stored()}
    assert await bench.writer.write(owner(), observed, COMPOSITION) is None
    [(method, path, _, body)] = east.writes
    assert (method, path, body["metadata"]["labels"][labels.OWNER_UID]) == ("PATCH", SERVICE, "now")


async def test_an_object_that_is_no_longer_desired_is_pruned_although_it_has_a_former_uid(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    east.has([stored()])
    connection = await connected(clusters, "east", east)
    observed = adoption.keyed(owner(), connection.children)
    composition = Composition((), {"clusters": ["east"]}, ready=True)
    assert await bench.writer.write(owner(), observed, composition) is None
    assert east.wrote("DELETE") == [SERVICE]


@pytest.mark.parametrize("is_watched", [True, False])
async def test_the_deletion_of_a_restored_owner_deletes_what_has_a_former_uid(
    plane: Any, east: Any, bench: Bench, clusters: Clusters, connected: Any, is_watched: bool
) -> None:
    if is_watched:
        east.has([stored()])
    await connected(clusters, "east", east)
    east.has([stored()])
    leaving = owner()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await bench.finalizer.finalize(leaving)
    assert east.wrote("DELETE") == [SERVICE]
    assert plane.wrote("PATCH") == [f"{REPLICA}/status"], "it waits, and keeps its finalizer"


@pytest.mark.parametrize(
    "forger",
    [
        pytest.param(owner(namespace="m"), id="of another namespace"),
        pytest.param(owner(name="other"), id="of another name"),
        pytest.param({**owner(), "kind": "ModelCache"}, id="of another kind"),
    ],
)
async def test_a_former_uid_that_a_user_wrote_gives_nothing_of_others(
    east: Any, bench: Bench, clusters: Clusters, connected: Any, forger: Any
) -> None:
    east.has([stored()])
    connection = await connected(clusters, "east", east)
    assert adoption.children_of(forger, connection.children) == ()
    assert await adoption.look_for(forger, connection) == ()
    leaving = copy.deepcopy(forger)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await bench.finalizer.finalize(leaving)
    assert east.writes == []


async def test_a_former_owner_that_lives_and_takes_its_objects_back_is_not_fought(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    east.has([stored()])
    connection = await connected(clusters, "east", east)
    informer = connection.watches.informer(resources.SERVICES)
    for uid, version in (("now", "10"), ("before", "11")):
        item = stored(uid)
        item["metadata"]["resourceVersion"] = version
        informer.remember(item)
    assert adoption.children_of(owner(), connection.children) == ()
    problem = message_of(await bench.writer.write(owner(), {}, COMPOSITION))
    assert "another control plane has taken it over" in problem
    assert east.writes == []


@hypothesis.given(st.text(alphabet="ab,-\n=()! ", max_size=200))
def test_whatever_the_annotation_says_former_uids_fit_into_a_selector(text: str) -> None:
    found = adoption.former_uids(owner(text, uid="a"))
    assert len(found) <= adoption.MOST
    assert not [each for each in found if set(each) & set(",\n=()! ") or each in {"", "a"}]


def test_an_owner_that_was_never_restored_has_none() -> None:
    plain = {"kind": "ModelReplica", "metadata": {"name": "r", "uid": "u"}}
    assert adoption.former_uids(plain) == ()
    assert adoption.children_of(plain, ChildIndex(lambda _item: "u")) == ()
