"""The endpoint of a replica that does not serve, which only Crossplane's function composes."""

from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.facts import ReplicaFacts
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.replica.model_replica import requirements
from support.replicas import cluster, composed, manifest, replica

WORKLOAD = "model-serving-qwen"
NAME = "qwen-demo-d8871"


def with_gateway() -> dict[str, Any]:
    """Return a cluster with an address."""
    east = cluster()
    east["status"]["gateway"] = {"address": "192.0.2.1"}
    return east


def engine(available: int) -> dict[str, Any]:
    """Return an engine's Deployment as observed."""
    status = {"availableReplicas": available, "updatedReplicas": available}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": status}


def endpoint(draining: str = "") -> dict[str, Any]:
    """Return the replica's endpoint as observed."""
    annotations = {labels.DRAINING: draining} if draining else {}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelEndpoint",
        "metadata": {"name": NAME, "namespace": "ml-team", "annotations": annotations},
        "spec": {"url": "http://192.0.2.1/ml-team/qwen-demo-d8871/v1"},
    }


def marks(composition: Composition) -> list[str]:
    """Return the marks of a composition's placeholders."""
    return [each.manifest["metadata"]["annotations"][labels.DRAINING] for each in composition.placeholders]


def is_announced(composition: Composition) -> bool:
    """Whether the replica says that services can send it requests."""
    [said] = [each for each in composition.conditions if each.type == "RoutingReady"]
    return said.holds


def has_endpoint(composition: Composition) -> bool:
    """Whether the controllers have an endpoint too."""
    return any(each.key == "endpoint" for each in composition.children)


def test_a_new_replica_has_one_from_the_start() -> None:
    first = composed(replica(), cluster=(with_gateway(),))
    assert (marks(first), is_announced(first), has_endpoint(first)) == ([labels.NOT_SERVING], False, False)
    [placeholder] = first.placeholders
    serving = composed(replica(), {WORKLOAD: engine(1)}, cluster=(with_gateway(),))
    [same] = [each for each in serving.children if isinstance(each, Desired) and each.key == "endpoint"]
    assert (same.manifest["metadata"]["name"], same.manifest["spec"]) == (
        placeholder.manifest["metadata"]["name"],
        placeholder.manifest["spec"],
    ), "only the mark goes"


def test_one_that_serves_has_none() -> None:
    observed = {WORKLOAD: engine(1), "endpoint": endpoint(labels.NOT_SERVING)}
    serving = composed(replica(), observed, cluster=(with_gateway(),))
    assert (marks(serving), is_announced(serving), has_endpoint(serving)) == ([], True, True)


def test_without_an_address_there_is_none() -> None:
    assert marks(composed(replica())) == []


@pytest.mark.parametrize(
    ("observed", "required"),
    [
        pytest.param({WORKLOAD: engine(0)}, {}, id="its engine has lost all copies"),
        pytest.param({}, {"cluster": ()}, id="its cluster is not known"),
        pytest.param({WORKLOAD: engine(0)}, {"cluster": (cluster(),)}, id="its cluster has lost its address"),
    ],
)
def test_the_endpoint_of_one_that_no_longer_serves_is_marked(
    observed: dict[str, Any], required: dict[str, Any]
) -> None:
    there = {**observed, "endpoint": endpoint()}
    lost = composed(replica(), there, **{"cluster": (with_gateway(),), **required})
    assert (marks(lost), is_announced(lost), has_endpoint(lost)) == ([labels.NOT_SERVING], False, False)


def test_a_placeholder_is_never_taken_for_an_endpoint_that_announces() -> None:
    observed = {WORKLOAD: engine(1), "endpoint": endpoint(labels.NOT_SERVING)}
    unknown = composed(replica(), observed)
    assert (marks(unknown), is_announced(unknown), has_endpoint(unknown)) == (
        [labels.NOT_SERVING],
        False,
        False,
    ), "its cluster has no address"


def test_one_that_leaves_has_none() -> None:
    leaving = composed(
        replica(draining=True), {"endpoint": endpoint(labels.NOT_SERVING)}, cluster=(with_gateway(),)
    )
    assert (marks(leaving), is_announced(leaving), has_endpoint(leaving)) == ([], False, False)


def test_nothing_is_made_in_a_reserved_namespace() -> None:
    item = manifest()
    item["metadata"]["namespace"] = "kube-system"
    owner = decode_as(ModelReplica, item)
    found: dict[str, Any] = {each.key: () for each in requirements(owner)} | {"cluster": (with_gateway(),)}
    decided = COMPOSERS["ModelReplica"].compose(Request(owner, {}, found, ReplicaFacts()))
    assert isinstance(decided, Composition)
    assert decided.placeholders == ()
