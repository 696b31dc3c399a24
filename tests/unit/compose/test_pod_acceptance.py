"""Labels and annotations of pods are refused where a deployment is placed, and what runs stays."""

from typing import Any

import pytest
import yaml

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded

KEYS = {"annotations": {"kuma.io/mesh": "x", "devices.nri.io/a": "x"}, "labels": {"gpu-fraction": "x"}}
NAMED = 'annotation "devices.nri.io/a", annotation "kuma.io/mesh", label "gpu-fraction"'
UID = "uid-of-deployment"
ACCEPTS = "  podKeys: {accept: [kuma.io/, devices.nri.io/, gpu-fraction]}\n"


def composed(
    metadata: dict[str, Any], *clusters: str, observed: dict[str, Any] | None = None, **status: Any
) -> Composition:
    """Return what a deployment composes whose pods have metadata."""
    written = yaml.safe_load(DEPLOYMENT)
    written["spec"]["engines"][0]["members"][0]["template"]["metadata"] = metadata
    written["metadata"]["uid"] = UID
    written["status"] = status
    files = assemble(loaded(joined(CLASS, *clusters, yaml.safe_dump(written))).objects)
    owner = decode_as(ModelDeployment, files.deployments[0])
    found = {each.key: files.store.find(each) for each in model_deployment.requirements(owner)}
    said = model_deployment.compose(Request(owner, observed or {}, found, DeploymentFacts()))
    assert isinstance(said, Composition)
    return said


def replicas(said: Composition) -> dict[str, Any]:
    """Return the ModelReplicas that a deployment composes, by key."""
    children = (each for each in said.children if isinstance(each, Desired))
    return {each.key: each.manifest for each in children if each.manifest["kind"] == "ModelReplica"}


def stated(said: Composition, type_: str) -> tuple[bool, str, str] | None:
    """Return a condition; None if there is none."""
    return next(((c.holds, c.reason, c.message) for c in said.conditions if c.type == type_), None)


def test_no_cluster_gets_a_replica_whose_pods_it_refuses() -> None:
    said = composed(KEYS, cluster("east"))
    assert replicas(said) == {}
    _, reason, message = stated(said, "ReplicasScheduled") or (True, "", "")
    assert reason == "PodNotAccepted"
    assert f"1 rejecting the pods (east: {NAMED})" in message
    assert f"to place one more, remove {NAMED} from the template" in message


def test_a_cluster_that_accepts_the_pods_gets_the_replica() -> None:
    said = composed(KEYS, cluster("east"), cluster("west", extra=ACCEPTS))
    assert [each["spec"]["clusterName"] for each in replicas(said).values()] == ["west"]
    assert stated(said, "SettingsSupported") is None


def test_a_want_of_capacity_is_told_as_before() -> None:
    said = composed(KEYS, cluster("east", nodes=0, extra=ACCEPTS))
    assert (stated(said, "ReplicasScheduled") or ("", ""))[1] == "InsufficientCapacity"


def test_a_replica_that_runs_stays_where_its_pods_are_refused() -> None:
    before = replicas(composed(KEYS, cluster("east", extra=ACCEPTS)))
    [(key, there)] = before.items()
    owner = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment", "name": "qwen", "uid": UID}
    uid = {"uid": "uid-of-replica", "ownerReferences": [{**owner, "controller": True}]}
    observed = {key: {**there, "metadata": {**there["metadata"], **uid}}}
    said = composed(KEYS, cluster("east"), observed=observed)
    assert replicas(said).keys() == {key}
    assert not replicas(said)[key]["spec"].get("draining")
    assert (stated(said, "ReplicasScheduled") or (False,))[0]
    holds, reason, message = stated(said, "SettingsSupported") or (True, "", "")
    assert (holds, reason) == (False, "PodNotAccepted")
    assert (
        f'InferenceCluster "east" does not accept {NAMED} of the pods: replicas there don\'t change'
        in message
    )


@pytest.mark.parametrize("key", ["kuma.io/mesh", "team"])
def test_it_says_once_the_pods_are_accepted_again(key: str) -> None:
    condition = {"type": "SettingsSupported", "status": "False", "reason": "PodNotAccepted", "message": "x"}
    said = composed(
        {"labels": {key: "x"}},
        cluster("east", extra=ACCEPTS),
        conditions=[{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    )
    assert (stated(said, "SettingsSupported") or ("", ""))[1] == "InForce"
