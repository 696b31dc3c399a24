"""Which replicas an edit reaches now, and which wait."""

from typing import Any

import pytest

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.deployment.rollout.rollout_order import Rollout, plan, revision


def replica(image: str, ready: str = "", accepted: str = "Accepted") -> dict[str, Any]:
    """Return a replica; `ready` is the status of its condition Ready, if it has one; `accepted` a reason."""
    container = {"name": "engine", "image": image}
    member = {
        "nodePoolName": "p",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}],
        "template": {"spec": {"containers": [container]}},
    }
    conditions = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": 'cluster "c" is unreachable: timeout',
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for type_, status, reason in (("ModelAccepted", "True", accepted), ("Ready", ready, "R"))
    ]
    return {
        "metadata": {"name": "r"},
        "spec": {"clusterName": "c", "engines": [{"name": "main", "members": [member]}]},
        "status": {"conditions": conditions if ready else []},
    }


OLD, NEW = "engine:1", "engine:2"


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param({"a": (NEW, "True"), "b": (NEW, "True")}, ("ab", ""), id="all are up to date"),
        pytest.param(
            {"a": (OLD, "True"), "b": (OLD, "True")}, ("", "b"), id="the first that serves goes first"
        ),
        pytest.param(
            {"a": (NEW, "False"), "b": (OLD, "True")},
            ("a", "b"),
            id="the next one waits while the first does not serve",
        ),
        pytest.param(
            {"a": (NEW, ""), "b": (OLD, "True")},
            ("a", "b"),
            id="the next one waits while the first has said nothing",
        ),
        pytest.param(
            {"a": (NEW, "True", "Updating"), "b": (OLD, "True")},
            ("", "b"),
            id="the next one waits while a copy of the first has yet to be replaced",
        ),
        pytest.param(
            {"a": (NEW, "True"), "b": (OLD, "True")}, ("a", ""), id="the next one goes when the first serves"
        ),
        pytest.param(
            {"a": (OLD, "True", "Updating"), "b": (OLD, "True")},
            ("", "b"),
            id="what is in hand may be corrected",
        ),
        pytest.param(
            {"a": (OLD, "True"), "b": (OLD, "False")}, ("", "a"), id="what does not serve goes at once"
        ),
        pytest.param(
            {"a": (OLD, "False"), "b": (OLD, "False")}, ("", ""), id="all that does not serve goes at once"
        ),
        pytest.param(
            {"a": (NEW, "True", "ClusterUnreachable"), "b": (OLD, "True")},
            ("a", "b"),
            id="what cannot be seen is not counted on",
        ),
        pytest.param(
            {"a": (OLD, "True", "ClusterUnreachable"), "b": (OLD, "True")},
            ("", "ab"),
            id="what cannot be seen is not edited",
        ),
        pytest.param({"b": (OLD, "True")}, ("", "b"), id="one that is still to be made comes before"),
        pytest.param({}, ("", ""), id="nothing is there yet"),
    ],
)
def test_one_serving_replica_at_a_time(
    observed: dict[str, tuple[str, ...]], expected: tuple[str, str]
) -> None:
    wanted = {key: decode_as(ModelReplica, replica(NEW)) for key in "ab"}
    there = {key: replica(*said) for key, said in observed.items()}
    updated, waiting = expected
    assert plan(wanted, there) == Rollout(frozenset(updated), frozenset(waiting))


def test_replicas_without_a_replacement_count_as_unavailable() -> None:
    wanted = {"a": decode_as(ModelReplica, replica(NEW))}
    there = {"a": replica(OLD, "True")}
    assert not plan(wanted, there).waiting
    assert plan(wanted, there, missing=1).waiting == {"a"}


def test_what_a_server_fills_in_is_no_difference() -> None:
    observed = replica(NEW, "True")
    observed["spec"]["engines"][0] |= {"copies": 1}
    observed["spec"]["engines"][0]["members"][0] |= {"role": "Standalone"}
    wanted = decode_as(ModelReplica, replica(NEW))
    assert plan({"a": wanted}, {"a": observed}) == Rollout(frozenset("a"), frozenset())


def deployment(**changes: Any) -> ModelDeployment:
    members = [{"template": {"spec": {"containers": [{"name": "engine", "image": NEW}]}}}]
    spec = {"replicas": 1, "engines": [{"name": "main", "members": members}]}
    return decode_as(ModelDeployment, {"metadata": {"name": "d", "namespace": "n"}, "spec": spec | changes})


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        pytest.param({"replicas": 5}, True, id="how many there are"),
        pytest.param({"clusterSelector": {"matchLabels": {"a": "b"}}}, True, id="where they may go"),
        pytest.param({"modelCacheRef": {"name": "weights"}}, False, id="the weights"),
        pytest.param({"serving": {"mode": "Unified", "routing": "EndpointPicker"}}, False, id="the routing"),
    ],
)
def test_the_revision_is_of_what_a_replica_is(changes: dict[str, Any], same: bool) -> None:
    before = revision(deployment().replica_template())
    assert (revision(deployment(**changes).replica_template()) == before) == same
