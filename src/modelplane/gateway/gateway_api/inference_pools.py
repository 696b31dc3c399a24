"""InferencePools: their pods, and the picker that chooses among them.

Source: Gateway API Inference Extension v1, ``InferencePool``.
"""

from collections.abc import Callable, Iterable

from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list, get_map

GROUP = "inference.networking.k8s.io"
KIND = "InferencePool"

Hosts = tuple[tuple[str, int], ...]


def is_pool(reference: Object) -> bool:
    """Return True if a backend of an HTTPRoute is an InferencePool."""
    return reference.get("kind") == KIND and reference.get("group") == GROUP


def list_members(pool: Object, pods: Iterable[Object], address_of: Callable[[str], str]) -> Hosts:
    """Return the addresses and ports of a pool's ready pods, sorted. ``pods`` are those of its namespace."""
    hosts = {
        (address_of(pod["status"]["podIP"]), port["number"])
        for pod in list_ready(pool, pods)
        for port in pool["spec"]["targetPorts"]
    }
    return tuple(sorted(hosts))


def list_ready(pool: Object, pods: Iterable[Object]) -> tuple[Object, ...]:
    """Return the pods of a pool that take requests, by their names."""
    labels = get_map(pool, "spec", "selector", "matchLabels").items()
    chosen = (
        pod
        for pod in pods
        if labels and labels <= get_map(pod, "metadata", "labels").items() and _is_ready(pod)
    )
    return tuple(sorted(chosen, key=lambda pod: str(pod["metadata"]["name"])))


def _is_ready(pod: Object) -> bool:
    status = get_map(pod, "status")
    conditions = {condition["type"]: condition["status"] for condition in get_list(status, "conditions")}
    is_ending = "deletionTimestamp" in pod["metadata"]
    return not is_ending and bool(status.get("podIP")) and conditions.get("Ready") == "True"


def check_supported(pool: Object) -> Rejected | None:
    """Return the field of a pool that this gateway does not support; None if it supports all."""
    reference = pool["spec"]["endpointPickerRef"]
    if reference.get("group") or reference.get("kind", "Service") != "Service":
        return Rejected(subject="spec.endpointPickerRef", detail="must name a Service")
    if "port" not in reference:
        return Rejected(subject="spec.endpointPickerRef.port", detail="is missing")
    return None


def is_fail_open(pool: Object) -> bool:
    """Return True if requests go to any pod while no picker answers."""
    return bool(pool["spec"]["endpointPickerRef"].get("failureMode") == "FailOpen")
