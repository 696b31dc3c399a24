from typing import Any

from modelplane.compose.composition import Requirement
from modelplane.controllers.interests import Interests, OwnerKey

SERVICE = OwnerKey("ModelService", "ml-team", "qwen")
DEPLOYMENT = OwnerKey("ModelDeployment", "ml-team", "qwen")


def _object(kind: str, name: str, namespace: str = "", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
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
