import copy
from typing import Any

import pytest

from modelplane.controllers import fleet_resources
from modelplane.controllers.children.ownership import ChildIndex, controller_uid
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer


def _replica(owner: str, version: int, uid: str = "u", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": "r",
            "namespace": "n",
            "uid": uid,
            "resourceVersion": str(version),
            "annotations": {"modelplane.ai/child": "key"},
            "ownerReferences": [{"uid": owner, "controller": True}],
            **metadata,
        },
    }


@pytest.fixture
def followed(client: Client) -> tuple[ChildIndex, Informer]:
    index, informer = ChildIndex(controller_uid), Informer(client, fleet_resources.MODEL_REPLICAS)
    index.follow(informer)
    return index, informer


@pytest.mark.parametrize("uid", [pytest.param("u", id="moved"), pytest.param("v", id="made anew")])
async def test_a_child_that_is_another_owners_now_is_no_longer_the_first_ones(
    followed: tuple[ChildIndex, Informer], uid: str
) -> None:
    index, informer = followed
    informer.remember(_replica("first", 1))
    informer.remember(_replica("second", 2, uid))
    assert index.of("first") == ()
    assert index.of("second") == (_replica("second", 2, uid),)


async def test_a_child_on_its_way_out_gives_way_to_its_successor(
    followed: tuple[ChildIndex, Informer],
) -> None:
    index, informer = followed
    leaving = _replica("owner", 1, name="old", deletionTimestamp="2026-01-01T00:00:00Z")
    staying = _replica("owner", 2, "v", name="new")
    for item in (staying, leaving):
        informer.remember(copy.deepcopy(item))
    assert index.keyed("owner") == {"key": staying}
    assert len(index.of("owner")) == 2
