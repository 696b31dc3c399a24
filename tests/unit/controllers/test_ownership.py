import copy
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists
from modelplane.controllers.children import ownership

OWNER: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "qwen-1", "namespace": "ml-team", "uid": "u-1"},
}


def _desired(cluster: str = "", **spec: Any) -> Desired:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ml-team", "labels": {"mine": "yes"}},
        "spec": spec or {"replicas": 1, "list": [{"a": 1}], "empty": {}},
    }
    return Desired("workload", manifest, exists, cluster)


def test_a_child_on_the_control_plane_is_collected_by_kubernetes() -> None:
    metadata = ownership.stamp(OWNER, _desired())["metadata"]
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelReplica",
            "name": "qwen-1",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert metadata["labels"] == {"mine": "yes", "modelplane.ai/managed-by": "modelplane"}


@pytest.mark.parametrize("kind", ["InferenceCluster", "GKECluster", "EKSCluster"])
def test_foreground_deletion_of_an_owner_that_others_need_does_not_delete_its_children(kind: str) -> None:
    # The garbage collector deletes at once what blocks an owner, whichever finalizers hold that.
    [reference] = ownership.stamp({**OWNER, "kind": kind}, _desired())["metadata"]["ownerReferences"]
    assert (reference["controller"], reference["blockOwnerDeletion"]) == (True, False)


def test_a_child_that_will_have_objects_on_a_cluster_is_held_from_the_start() -> None:
    replica = Desired("replica", {"kind": "ModelReplica", "metadata": {"name": "r"}}, exists)
    assert ownership.stamp(OWNER, replica)["metadata"]["finalizers"] == ["modelplane.ai/remote-objects"]
    assert "finalizers" not in ownership.stamp(OWNER, _desired())["metadata"]


def test_a_child_on_another_cluster_is_found_by_its_owners_uid() -> None:
    metadata = ownership.stamp(OWNER, _desired("east"))["metadata"]
    assert "ownerReferences" not in metadata
    assert metadata["labels"]["modelplane.ai/owner-uid"] == "u-1"
    assert metadata["annotations"]["modelplane.ai/child"] == "workload"


def test_stamping_leaves_the_composition_alone() -> None:
    desired = _desired()
    before = copy.deepcopy(desired.manifest)
    ownership.stamp(OWNER, desired)
    assert desired.manifest == before


def _observed() -> dict[str, Any]:
    observed = copy.deepcopy(ownership.stamp(OWNER, _desired()))
    observed["metadata"]["resourceVersion"] = "7"
    observed["spec"].pop("empty")
    observed["spec"]["list"][0]["defaulted"] = "x"
    observed["status"] = {"replicas": 1}
    return observed


def test_what_the_server_adds_is_no_difference() -> None:
    assert ownership.is_current(ownership.stamp(OWNER, _desired()), _observed())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda found: found["spec"].update(replicas=3), id="a changed value"),
        pytest.param(lambda found: found["spec"].pop("replicas"), id="a removed field"),
        pytest.param(lambda found: found["spec"]["list"].append({"a": 2}), id="a longer list"),
        pytest.param(lambda found: found["metadata"]["labels"].clear(), id="lost labels"),
    ],
)
def test_what_somebody_changed_is_a_difference(change: Any) -> None:
    observed = _observed()
    change(observed)
    assert not ownership.is_current(ownership.stamp(OWNER, _desired()), observed)


def test_a_field_that_the_manifest_no_longer_has_is_a_difference() -> None:
    assert not ownership.is_current(ownership.stamp(OWNER, _desired(replicas=1)), _observed())


def test_the_releases_that_an_owner_records_are_added_to_and_read() -> None:
    owner: dict[str, Any] = {"metadata": {}}
    assert ownership.helm_releases(owner) == {}
    text = ownership.recorded_releases(owner, [("west", "ns", "lws"), ("east", "ns", "lws")])
    owner["metadata"]["annotations"] = {labels.HELM_RELEASES: f"{text},not a release,east/other/nfd"}
    assert ownership.helm_releases(owner) == {
        "east": {("ns", "lws"), ("other", "nfd")},
        "west": {("ns", "lws")},
    }
    assert ownership.recorded_releases(owner, [("east", "ns", "lws")]) == (
        "east/ns/lws,east/other/nfd,west/ns/lws"
    )


PARTS: dict[str, tuple[Any, Any, bool]] = {
    "the same text": ("a", "a", True),
    "another text": ("a", "b", False),
    "a text in place of a number": (1, "1", False),
    "a number of another type": (1.0, 1, True),
    "a field more": ({"a": 1, "b": 2}, {"a": 1}, True),
    "a field less": ({"b": 2}, {"a": 1}, False),
    "another value deep within": ({"a": [{"b": "c"}]}, {"a": [{"b": "d"}]}, False),
    "a field more deep within": ({"a": [{"b": "c", "e": {}}]}, {"a": [{"b": "c"}]}, True),
    "an empty map that the server dropped": ({}, {"a": {}}, True),
    "an empty list that the server dropped": ({}, {"a": []}, True),
    "an empty map that has fields by now": ({"a": {"b": 1}}, {"a": {}}, True),
    "an empty text that is missing": ({}, {"a": ""}, False),
    "false that is missing": ({}, {"a": False}, False),
    "a list with one more": ([1, 2], [1], False),
    "a list in another order": ([2, 1], [1, 2], False),
    "a tuple where JSON has a list": ([1, 2], (1, 2), True),
    "a map in place of a list": ({}, [1], False),
    "a list in place of a map": ([], {"a": 1}, False),
    "nothing in place of a map": (None, {"a": 1}, False),
}


@pytest.mark.parametrize(("whole", "part", "expected"), PARTS.values(), ids=PARTS)
def test_a_part_is_contained_field_by_field(whole: Any, part: Any, expected: bool) -> None:
    assert ownership.contains(whole, part) is expected
