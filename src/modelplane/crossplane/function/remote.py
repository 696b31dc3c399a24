"""Children on other clusters, as provider-kubernetes makes them.

A child of an inference cluster is composed as an ``Object`` (``kubernetes.m.crossplane.io``)
around its manifest. Seen from the core it is the manifest as the cluster has it, or not
there at all; what keeps it from being there is told beside it.

The provider keeps a manifest in the ``Object`` with all that is in it, the values of a
Secret too, wherever it is told to take them from. So who may read Objects reads these.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.compose.composition import Desired, Object, Requirement, Unknown
from modelplane.compose.conditions import SYNCED
from modelplane.compose.readiness import condition_of
from modelplane.compose.workload_kinds import row_of

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
KIND = "Object"

_FOUND = {"Gateway": "size(object.status.addresses) > 0"}
"""When the provider may look less often at what it only looks at, by kind; else once it is there."""

_ABSENT = ("external resource does not exist", "no matches for kind")
"""What the provider says of an object to look at that is not there."""

NOT_CREATED = "create failed"
"""How the provider begins to say that a cluster has refused an object."""


def is_remote(item: Object) -> bool:
    """Whether a composed object stands for one of another cluster."""
    return bool(item.get("kind") == KIND and str(item.get("apiVersion", "")).startswith("kubernetes.m."))


def there(item: Object) -> Object | None:
    """Return the object that the cluster has, as the provider saw it last; None while it saw none."""
    found = item.get("status", {}).get("atProvider", {}).get("manifest")
    return found if isinstance(found, Mapping) and "metadata" in found else None


def problem(item: Object) -> str:
    """Return why the provider could not bring the cluster in line; empty where it could, or has not tried."""
    said = condition_of(item, SYNCED)
    return str(said.get("message") or said.get("reason")) if said.get("status") == "False" else ""


def write(child: Desired, provider_config: str) -> Object:
    """Return what has a child made on its cluster."""
    manifest, row = child.manifest, row_of(child.manifest)
    written = _object(manifest, provider_config)
    if row is None:
        return written
    spec = written["spec"]
    if row.pods:
        spec["forProvider"]["deletionPropagationPolicy"] = "Foreground"
    if row.ready is not None:
        spec |= _ready_when(row.ready.query)
    if row.ready is not None or row.answered:
        # The provider watches where that was switched on.
        spec["watch"] = True
    return written


def namespace(name: str, provider_config: str) -> Object:
    """Return what has a namespace made that is missing, and never deletes it: it is not only ours."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return _object(manifest, provider_config, policies=("Observe", "Create", "Update", "LateInitialize"))


def look(requirement: Requirement, provider_config: str) -> Object:
    """Return what has an object of a cluster looked at, and nothing else."""
    metadata = {"name": requirement.name}
    if requirement.namespace:
        metadata["namespace"] = requirement.namespace
    manifest = {"apiVersion": requirement.api_version, "kind": requirement.kind, "metadata": metadata}
    looking = _object(manifest, provider_config, policies=("Observe",))
    query = _FOUND.get(requirement.kind)
    spec = {**looking["spec"], **(_ready_when(query) if query else {}), "watch": True}
    return {**looking, "spec": spec}


def seen(item: Object | None) -> tuple[Object, ...] | Unknown:
    """Return what a look found."""
    if item is None:
        return Unknown("it has not been looked at yet")
    cause = problem(item)
    if any(text in cause for text in _ABSENT):
        return ()
    if cause:
        return Unknown(cause)
    found = there(item)
    return Unknown("it has not been looked at yet") if found is None else (found,)


def _ready_when(query: str) -> dict[str, Any]:
    return {"readiness": {"policy": "DeriveFromCelQuery", "celQuery": query}}


def _object(manifest: Object, provider_config: str, *, policies: tuple[str, ...] = ()) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "forProvider": {"manifest": manifest},
        "providerConfigRef": {"kind": "ClusterProviderConfig", "name": provider_config},
    }
    if policies:
        spec["managementPolicies"] = list(policies)
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}
