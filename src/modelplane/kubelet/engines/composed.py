"""Containers that Modelplane's controllers composed, told apart from those that a tenant wrote.

A label or an owner of a pod is no proof, because whoever creates a pod writes both. The proof is the workload
at the top of its owners: only the controllers may write one with Modelplane's label, which this machine's
control planes enforce (see ``cluster_objects``), and its template has the container as it is. Templates of
tenants are part of such workloads too, so the workload must be the one that the launcher is for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api import labels
from modelplane.api.fields.pods.containers import ROUTING_SIDECAR
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_replica import ModelReplica
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet import pod_refusals
from modelplane.kubelet.pods import views

_KINDS = {
    ("apps/v1", "Deployment"): resources.DEPLOYMENTS,
    ("apps/v1", "ReplicaSet"): resources.REPLICA_SETS,
    ("batch/v1", "Job"): resources.JOBS,
}
_LEVELS = 2
"""Owners above a pod at most: a ReplicaSet is between a Deployment and its pods."""


@dataclass(frozen=True, slots=True)
class Composed:
    """The containers that a launcher runs: those of one name, in workloads that are composed for one kind."""

    owner: str
    """Kind of the object that the workload is composed for."""
    container: str
    """Name of the container."""
    child: str = ""
    """Key of the workload among those of its owner; empty if no template of a tenant may have the name."""


CACHE = Composed(ModelCache.__name__, "hydrate")
PICKER = Composed(ModelReplica.__name__, "epp", "epp")
SIDECAR = Composed(ModelReplica.__name__, ROUTING_SIDECAR)


async def is_composed(client: Client, pod: Mapping[str, Any], name: str, containers: Composed) -> bool:
    """Return True if the controllers composed a container of a pod, and for such an owner.

    Raises ``KubernetesError`` if the owners of the pod cannot be read.
    """
    if name != containers.container:
        return False
    workload = await _workload(client, pod)
    if workload is None:
        return False
    workload_labels, annotations = (
        workload["metadata"].get(field) or {} for field in ("labels", "annotations")
    )
    is_for_launcher = (
        workload_labels.get(labels.MANAGED_BY) == "modelplane"
        and annotations.get(labels.OWNER_KIND) == containers.owner
        and (not containers.child or annotations.get(labels.CHILD) == containers.child)
    )
    return is_for_launcher and _content(pod["spec"], name) == _content(
        workload["spec"]["template"]["spec"], name
    )


async def _workload(client: Client, pod: Mapping[str, Any]) -> Object | None:
    """Return the object at the top of a pod's owners; None if it has none that exists."""
    namespace, workload = pod["metadata"]["namespace"], pod
    for _ in range(_LEVELS):
        owners = workload["metadata"].get("ownerReferences") or ()
        reference = next((reference for reference in owners if reference.get("controller")), None)
        if reference is None:
            break
        resource = _KINDS.get((reference["apiVersion"], reference["kind"]))
        owner = await client.get(resource, reference["name"], namespace) if resource else None
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return None
        workload = owner
    return None if workload is pod else dict(workload)


def _content(spec: Mapping[str, Any], name: str) -> object:
    """Return what one container of a pod runs, and with what."""
    container = next(
        candidate for candidate in views.list_containers({"spec": spec}) if candidate["name"] == name
    )
    mounts = list(pod_refusals.list_volume_mounts(container))
    named = {mount["name"] for mount in mounts}
    return (
        [container.get(field) for field in ("image", "command", "args", "env", "envFrom")],
        mounts,
        [volume for volume in spec.get("volumes") or () if volume["name"] in named],
        spec.get("serviceAccountName", "default"),
    )
