from typing import Any

import pytest

from modelplane.compose.composition import Requirement
from modelplane.controllers.interests import Interests, OwnerKey

SERVICE = OwnerKey("ModelService", "ml-team", "qwen")
DEPLOYMENT = OwnerKey("ModelDeployment", "ml-team", "qwen")


def _object(kind: str, name: str, namespace: str = "", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid of {name}", "labels": labels},
    }


def _requirement(kind: str, **fields: Any) -> Requirement:
    return Requirement("key", "modelplane.ai/v1alpha1", kind, **fields)


def test_an_object_required_by_name_wakes_only_those_who_named_it() -> None:
    interests = Interests()
    interests.set(SERVICE, (_requirement("InferenceGateway", name="default"),))
    assert list(interests.triggered_by(_object("InferenceGateway", "default"), "")) == [SERVICE]
    assert list(interests.triggered_by(_object("InferenceGateway", "other"), "")) == []


def test_objects_of_another_namespace_wake_nobody() -> None:
    interests = Interests()
    interests.set(SERVICE, (_requirement("ModelEndpoint", namespace="ml-team"),))
    assert list(interests.triggered_by(_object("ModelEndpoint", "a", "ml-team"), "")) == [SERVICE]
    assert list(interests.triggered_by(_object("ModelEndpoint", "a", "other"), "")) == []


def test_labels_decide_where_the_requirement_has_some() -> None:
    interests = Interests()
    interests.set(SERVICE, (_requirement("Pod", labels={"serving": "qwen"}, cluster="east"),))
    assert list(interests.triggered_by(_object("Pod", "p", serving="qwen"), "east")) == [SERVICE]
    assert list(interests.triggered_by(_object("Pod", "p", serving="other"), "east")) == []
    assert list(interests.triggered_by(_object("Pod", "p", serving="qwen"), "west")) == []


def test_a_quiet_requirement_wakes_only_an_owner_that_is_short() -> None:
    interests = Interests()
    interests.set(DEPLOYMENT, (_requirement("ModelReplica", triggers=False),))
    replica = _object("ModelReplica", "r", "other")
    assert list(interests.triggered_by(replica, "")) == []
    interests.set_unsatisfied(DEPLOYMENT, unsatisfied=True)
    assert list(interests.triggered_by(replica, "")) == [DEPLOYMENT]
    interests.set_unsatisfied(DEPLOYMENT, unsatisfied=False)
    assert list(interests.triggered_by(replica, "")) == []


def test_of_those_that_are_short_the_one_that_has_waited_longest_comes_first() -> None:
    interests = Interests()
    waiting = [OwnerKey("ModelDeployment", "ml-team", name) for name in ("b", "c", "a")]
    for owner in sorted(waiting):
        interests.set(owner, (_requirement("ModelReplica", triggers=False),))
    for owner in [*waiting, waiting[0]]:
        interests.set_unsatisfied(owner, unsatisfied=True)
    assert list(interests.triggered_by(_object("ModelReplica", "r", "other"), "")) == waiting


def test_replaced_and_forgotten_requirements_wake_nobody() -> None:
    interests = Interests()
    interests.set(SERVICE, (_requirement("InferenceGateway", name="default"),))
    interests.set(SERVICE, (_requirement("InferenceGateway", name="other"),))
    assert list(interests.triggered_by(_object("InferenceGateway", "default"), "")) == []
    interests.forget(SERVICE)
    assert list(interests.triggered_by(_object("InferenceGateway", "other"), "")) == []
    assert interests.of(SERVICE) == ()


def test_who_looks_at_a_cluster_is_known_until_it_looks_elsewhere() -> None:
    interests = Interests()
    interests.set(SERVICE, (_requirement("Pod", cluster="east"), _requirement("Service", cluster="east")))
    interests.set(DEPLOYMENT, (_requirement("InferenceCluster"),))
    assert interests.on("east") == (SERVICE,)
    interests.set(SERVICE, (_requirement("Pod", cluster="west"),))
    assert (interests.on("east"), interests.on("west")) == ((), (SERVICE,))


def test_one_owner_may_require_several_sets_of_the_same_kind() -> None:
    interests = Interests()
    sets = tuple(_requirement("Pod", labels={"workload": name}, cluster="east") for name in ("a", "b"))
    interests.set(DEPLOYMENT, sets)
    for name in ("a", "b"):
        assert list(interests.triggered_by(_object("Pod", "p", workload=name), "east")) == [DEPLOYMENT]
    interests.forget(DEPLOYMENT)
    assert list(interests.triggered_by(_object("Pod", "p", workload="b"), "east")) == []


def test_whether_anyone_requires_a_name_depends_on_the_namespace() -> None:
    interests = Interests()
    secret = Requirement("auth", "v1", "Secret", "ml-team", "token")
    interests.set(SERVICE, (secret,))
    assert interests.anyone(secret)
    assert not interests.anyone(Requirement("auth", "v1", "Secret", "other", "token"))
    interests.forget(SERVICE)
    assert not interests.anyone(secret)


GATEWAY = OwnerKey("InferenceGateway", "", "default")
EAST, WEST = {"address": "192.0.2.1"}, {"address": "192.0.2.2"}

HISTORIES: dict[str, list[tuple[dict[str, Any], bool]]] = {
    "a value that may have been there before": [({"gateway": EAST}, True)],
    "no value from the start": [({}, False), ({"pools": []}, False)],
    "its first value": [({}, False), ({"gateway": EAST}, True)],
    "another value": [({"gateway": EAST}, True), ({"gateway": WEST}, True)],
    "the same value": [({"gateway": EAST}, True), ({"gateway": EAST, "pools": []}, False)],
    "no value any more": [({"gateway": EAST}, True), ({}, True), ({}, False)],
    "a value again": [({"gateway": EAST}, True), ({}, True), ({"gateway": EAST}, True)],
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_of_a_status_only_the_field_that_is_required_wakes(
    history: list[tuple[dict[str, Any], bool]],
) -> None:
    interests = Interests()
    interests.set(GATEWAY, (_requirement("InferenceCluster", with_status="gateway"),))
    for status, woken in history:
        item = _object("InferenceCluster", "east") | {"status": status}
        assert list(interests.triggered_by(item, "")) == [GATEWAY] * woken


def test_each_object_has_a_value_of_its_own() -> None:
    interests = Interests()
    interests.set(GATEWAY, (_requirement("InferenceCluster", with_status="gateway"),))
    for name in ("east", "west"):
        item = _object("InferenceCluster", name) | {"status": {"gateway": EAST}}
        assert list(interests.triggered_by(item, "")) == [GATEWAY]


def test_every_owner_is_told_of_a_field() -> None:
    interests = Interests()
    others = [OwnerKey("InferenceGateway", "", name) for name in ("a", "b")]
    for owner in others:
        interests.set(owner, (_requirement("InferenceCluster", with_status="gateway"),))
    item = _object("InferenceCluster", "east") | {"status": {"gateway": EAST}}
    assert list(interests.triggered_by(item, "")) == others
    assert list(interests.triggered_by(item, "")) == []


def test_an_object_that_is_gone_wakes_whatever_its_status_was() -> None:
    interests = Interests()
    interests.set(GATEWAY, (_requirement("InferenceCluster", with_status="gateway"),))
    item = _object("InferenceCluster", "east") | {"status": {"gateway": EAST}}
    assert list(interests.triggered_by(item, "")) == [GATEWAY]
    assert list(interests.triggered_by(item, "", is_gone=True)) == [GATEWAY]
    assert list(interests.triggered_by(item, "")) == [GATEWAY]


def test_an_object_that_never_had_the_field_goes_without_waking() -> None:
    interests = Interests()
    interests.set(GATEWAY, (_requirement("InferenceCluster", with_status="gateway"),))
    assert list(interests.triggered_by(_object("InferenceCluster", "east"), "", is_gone=True)) == []


def test_an_object_that_goes_without_the_field_that_it_had_wakes() -> None:
    interests = Interests()
    interests.set(GATEWAY, (_requirement("InferenceCluster", with_status="gateway"),))
    item = _object("InferenceCluster", "east") | {"status": {"gateway": EAST}}
    assert list(interests.triggered_by(item, "")) == [GATEWAY]
    assert list(interests.triggered_by(item | {"status": {}}, "", is_gone=True)) == [GATEWAY]
