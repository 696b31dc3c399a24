"""Containers that the controllers composed, by the workload at the top of a pod's owners."""

import asyncio
from copy import deepcopy
from typing import Any, cast

import pytest

from modelplane.api import labels
from modelplane.api.fields.pods.containers import ROUTING_SIDECAR
from modelplane.compose.cluster.cluster_namespace import OURS
from modelplane.compose.replica.backends.picker_workload import PICKER_KEY
from modelplane.kube.client import Client
from modelplane.kube.resources import Resource
from modelplane.kubelet.engines import composed
from modelplane.kubelet.engines.composed import CACHE, PICKER, SIDECAR, Composed

TOKEN = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}


class Stored:
    """The objects of an API server, by kind and name."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._objects = {(each["kind"], each["metadata"]["name"]): each for each in objects}

    async def get(self, resource: Resource, name: str, namespace: str) -> Any:
        found = self._objects.get((resource.kind, name))
        return found if found and found["metadata"]["namespace"] == namespace else None


def container(name: str = "hydrate", **fields: Any) -> dict[str, Any]:
    mounts = [{"name": "artifact", "mountPath": "/mnt/artifact"}]
    return {"name": name, "image": "python:3", "command": ["python"], "volumeMounts": mounts} | fields


def spec(*containers: dict[str, Any]) -> dict[str, Any]:
    volumes = [{"name": "artifact", "persistentVolumeClaim": {"claimName": "weights"}}]
    return {"containers": list(containers or [container()]), "volumes": volumes}


def job(owner: str = "ModelCache", **metadata: Any) -> dict[str, Any]:
    marks = {"labels": dict(OURS), "annotations": {labels.OWNER_KIND: owner}}
    return {
        "kind": "Job",
        "metadata": {"name": "fill", "namespace": "team", "uid": "1"} | marks | metadata,
        "spec": {"template": {"spec": spec()}},
    }


def reference(kind: str = "Job", name: str = "fill", uid: str = "1", **fields: Any) -> dict[str, Any]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True} | fields


def pod(described: dict[str, Any] | None = None, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    references = {"ownerReferences": list(owners or [reference()])}
    return {
        "metadata": {"name": "p", "namespace": "team"} | references | metadata,
        "spec": described or spec(),
    }


def is_composed(
    found: dict[str, Any], *stored: dict[str, Any], name: str = "hydrate", wanted: Composed = CACHE
) -> bool:
    client = cast("Client", Stored(*stored))
    return asyncio.run(composed.is_composed(client, found, name, wanted))


def test_a_pod_of_a_job_of_the_controllers_is_composed() -> None:
    assert is_composed(pod(), job())


def test_what_admission_adds_to_a_pod_makes_no_difference() -> None:
    described = spec(container(volumeMounts=[*container()["volumeMounts"], TOKEN], resources={"limits": {}}))
    described["volumes"].append({"name": TOKEN["name"], "projected": {}})
    assert is_composed(pod(described), job())


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {}}, id="no label"),
        pytest.param({"labels": {labels.MANAGED_BY: "me"}}, id="another manager"),
        pytest.param({"annotations": {}}, id="no owner"),
        pytest.param({"annotations": {labels.OWNER_KIND: "ModelReplica"}}, id="another owner"),
        pytest.param({"uid": "2"}, id="a Job of the same name"),
        pytest.param({"namespace": "another"}, id="a Job of another namespace"),
        pytest.param({"labels": None, "annotations": None}, id="neither"),
    ],
)
def test_another_job_is_none_of_the_controllers(metadata: dict[str, Any]) -> None:
    assert not is_composed(pod(), job(**metadata))


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(pod(ownerReferences=[]), id="no owner"),
        pytest.param(pod(None, reference(controller=False)), id="an owner that does not control it"),
        pytest.param(pod(None, reference(name="absent")), id="an owner that does not exist"),
        pytest.param(pod(None, reference(kind="ConfigMap")), id="an owner of another kind"),
        pytest.param(pod(None, reference(apiVersion="evil/v1")), id="an owner of another group"),
        pytest.param(pod(spec(container(command=["sh"]))), id="another command"),
        pytest.param(pod(spec(container(args=["x"]))), id="arguments"),
        pytest.param(pod(spec(container(image="python:2"))), id="another image"),
        pytest.param(pod(spec(container(env=[{"name": "SOURCE"}]))), id="variables"),
        pytest.param(
            pod(spec(container(envFrom=[{"secretRef": {"name": "x"}}]))), id="variables of a Secret"
        ),
        pytest.param(
            pod(spec(container(volumeMounts=[{"name": "artifact", "mountPath": "/etc"}]))), id="another mount"
        ),
        pytest.param(
            pod(spec() | {"volumes": [{"name": "artifact", "emptyDir": {}}]}), id="another volume of the name"
        ),
        pytest.param(pod(spec() | {"serviceAccountName": "strong"}), id="another account"),
    ],
)
def test_a_pod_that_only_looks_like_one_of_such_a_job_is_not_composed(found: dict[str, Any]) -> None:
    assert not is_composed(found, job())


def test_an_init_container_of_another_pod_is_not_composed() -> None:
    described = spec(container("engine")) | {"initContainers": [container(command=["sh"])]}
    assert not is_composed(pod(described), job())


def test_another_container_of_such_a_pod_is_not_composed() -> None:
    beside = deepcopy(job())
    beside["spec"]["template"]["spec"]["containers"].append(container("engine"))
    assert not is_composed(pod(spec(container(), container("engine"))), beside, name="engine")


def deployment(child: str, *containers: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    marks = {
        "labels": dict(OURS),
        "annotations": {labels.OWNER_KIND: "ModelReplica", labels.CHILD: child},
    }
    top = {
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team", "uid": "d"} | marks,
        "spec": {"template": {"spec": spec(*containers)}},
    }
    owned = {"name": "r", "namespace": "team", "uid": "r"}
    between = {
        "kind": "ReplicaSet",
        "metadata": owned | {"ownerReferences": [reference("Deployment", "d", "d")]},
        "spec": {"template": {"spec": spec()}},
    }
    return top, between


OF_A_REPLICA_SET = reference("ReplicaSet", "r", "r")


def test_the_picker_is_composed_in_its_own_deployment_only() -> None:
    found = pod(spec(container("epp")), OF_A_REPLICA_SET)
    own, engines = deployment(PICKER_KEY, container("epp")), deployment("model-serving", container("epp"))
    assert is_composed(found, *own, name="epp", wanted=PICKER)
    # A tenant may call a container beside its engine so.
    assert not is_composed(found, *engines, name="epp", wanted=PICKER)


def test_the_routing_sidecar_is_composed_under_the_name_that_no_tenant_may_use() -> None:
    containers = (container("engine"), container(ROUTING_SIDECAR), container("mine"))
    found, stored = pod(spec(*containers), OF_A_REPLICA_SET), deployment("model-serving", *containers)
    assert is_composed(found, *stored, name=ROUTING_SIDECAR, wanted=SIDECAR)
    assert not is_composed(found, *stored, name="mine", wanted=SIDECAR)


def test_a_replica_set_of_a_tenant_below_a_deployment_of_the_controllers_proves_nothing() -> None:
    top, between = deployment(PICKER_KEY, container("epp"))
    forged = pod(spec(container("epp", args=["--pool-name=another"])), OF_A_REPLICA_SET)
    assert not is_composed(forged, top, between, name="epp", wanted=PICKER)
    marked = between | {"metadata": between["metadata"] | {"labels": dict(OURS), "ownerReferences": []}}
    assert not is_composed(pod(spec(container("epp")), OF_A_REPLICA_SET), marked, name="epp", wanted=PICKER)
