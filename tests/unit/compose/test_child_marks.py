"""Marks of children: the controllers and the function write the same ones."""

from typing import Any

import pytest

from modelplane.compose.child_marks import mark
from modelplane.compose.composition import Composition, Desired
from modelplane.compose.readiness import exists
from modelplane.controllers.children.ownership import stamp
from modelplane.crossplane.function.answer import _list_children
from modelplane.crossplane.function.observation import Observation

OWNER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "r", "namespace": "ml", "uid": "u-1"},
}
MARKS = {"modelplane.ai/managed-by": "modelplane", "modelplane.ai/owner-uid": "u-1"}
NAMED = {
    "modelplane.ai/child": "engine",
    "modelplane.ai/owner-kind": "ModelReplica",
    "modelplane.ai/owner-namespace": "ml",
    "modelplane.ai/owner-name": "r",
}


def child(cluster: str = "east", **metadata: Any) -> Desired:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "engine", "namespace": "ml", **metadata},
    }
    return Desired("engine", manifest, exists, cluster)


def test_a_child_on_a_cluster_names_its_owner() -> None:
    metadata = mark(OWNER, child())["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (MARKS, NAMED)


def test_a_child_on_the_control_plane_has_an_owner_reference_instead() -> None:
    metadata = mark(OWNER, child(cluster=""))["metadata"]
    assert metadata["labels"] == {"modelplane.ai/managed-by": "modelplane"}
    assert metadata["annotations"] == {"modelplane.ai/child": "engine"}


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_what_a_composition_writes_stays_and_cannot_take_the_place_of_a_mark(field: str) -> None:
    forged = {"app": "a", "modelplane.ai/managed-by": "other", "modelplane.ai/child": "other"}
    desired = child(labels=forged) if field == "labels" else child(annotations=forged)
    found = mark(OWNER, desired)["metadata"][field]
    marks = MARKS if field == "labels" else NAMED
    assert (found["app"], marks.items() <= found.items()) == ("a", True)


def test_the_function_and_the_controllers_write_the_same() -> None:
    [(_, written)] = _list_children(OWNER, Composition((child(),)), Observation({}))
    ours = written.manifest["spec"]["forProvider"]["manifest"]["metadata"]
    theirs = stamp(OWNER, child())["metadata"]
    del theirs["annotations"]["modelplane.ai/applied"]
    assert ours == theirs
