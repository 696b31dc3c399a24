"""Children on other clusters, as Objects of provider-kubernetes and Releases of provider-helm.

A child of an inference cluster is composed as an ``Object`` (``kubernetes.m.crossplane.io``) around its
manifest. The core sees only the manifest as observed on the cluster, or nothing; the provider's error is
reported separately. A Release is composed as it is, and the core sees it with its status.

The provider stores the whole manifest in the ``Object``, including the values of a Secret, wherever they
come from. So permission to read Objects is permission to read these values.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.compose.cluster.cluster_namespace import MADE, OURS, RESTRICTED, is_ours
from modelplane.compose.composition import Desired, Requirement, Unknown
from modelplane.compose.conditions import SYNCED
from modelplane.compose.readiness import condition_of
from modelplane.compose.workload_kinds import is_release, row_of

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
KIND = "Object"

_FOUND = {"Gateway": "size(object.status.addresses) > 0"}
"""CEL queries for the readiness of observed objects, by kind; other kinds are ready once they exist."""

_UNSERVED = (
    r"(?P<api>\S+): (?:no matches for (?P=api), Resource=|the server could not find the requested resource)"
)
_ABSENT = re.compile(
    "external resource does not exist"
    '|no matches for kind "'
    "|^(?!.*complete list of server APIs).*: the server could not find the requested resource$"
    f"|unable to retrieve the complete list of server APIs: {_UNSERVED}$"
)
"""The provider's messages for an observed object that does not exist, or whose kind is not served.

The last one is that of the first look at a group of kinds. An error about several groups, or with any other
cause, leaves unknown what exists.
"""

_CREATED = "crossplane.io/external-create-succeeded"
"""Annotation that the provider sets when it has created an object (crossplane-runtime)."""

NOT_CREATED = "create failed"
"""Prefix of the provider's message when a cluster refused to create an object."""


def is_remote(item: Object) -> bool:
    """Return True if a composed object stands for an object on another cluster."""
    return bool(item.get("kind") == KIND and str(item.get("apiVersion", "")).startswith("kubernetes.m."))


def find_observed(item: Object) -> Object | None:
    """Return the object as last observed on the cluster; None if it was not observed."""
    found = item.get("status", {}).get("atProvider", {}).get("manifest")
    return found if isinstance(found, Mapping) and "metadata" in found else None


def problem(item: Object) -> str | None:
    """Return the provider's error in writing to the cluster; None if there is none."""
    said = condition_of(item, SYNCED)
    return str(said.get("message") or said.get("reason")) if said.get("status") == "False" else None


class Connection(NamedTuple):
    """The provider configuration with which a provider reaches a cluster."""

    name: str
    kind: str = "ClusterProviderConfig"


def write(child: Desired, connection: Connection) -> Object:
    """Return the Object that writes a child to its cluster, or the Release that installs it there."""
    manifest, row = child.manifest, row_of(child.manifest)
    if is_release(manifest):
        return {**manifest, "spec": {**manifest["spec"], "providerConfigRef": _reference(connection)}}
    written = _object(manifest, connection)
    if row is None:
        return written
    spec = written["spec"]
    if row.pods:
        spec["forProvider"]["deletionPropagationPolicy"] = "Foreground"
    if row.ready is not None:
        spec |= _ready_when(row.ready.query)
    if row.ready is not None or row.answered:
        # The provider watches if its watches are enabled.
        spec["watch"] = True
    return written


def namespace(name: str, connection: Connection, written: Object | None) -> Object:
    """Return the Object that creates a missing namespace and never deletes it, because others use it too.

    It changes no namespace, with one exception: one that the Object ``written`` itself has created without a
    label, as earlier versions did, gets the label.
    """
    found = find_observed(written) if written is not None else None
    adopts = written is not None and has_created(written) and found is not None and not is_ours(found)
    metadata = {"name": name, "labels": dict(OURS if adopts else MADE)}
    policies = ("Observe", "Create", *(("Update",) if adopts else ()), "LateInitialize")
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return _object(manifest, connection, policies=policies)


def system_namespace(connection: Connection) -> Object:
    """Return the Object that creates the system's namespace where it is missing, and never changes it.

    It does not have the label of the namespaces that a fleet writes into: on a cluster with the fleet's
    identity, that identity would get access to it.
    """
    metadata = {"name": SYSTEM_NAMESPACE, "labels": dict(RESTRICTED)}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return _object(manifest, connection, policies=("Observe", "Create", "LateInitialize"))


def has_created(item: Object) -> bool:
    """Return True if the provider has created the object of an Object, and did not find it there."""
    return _CREATED in item["metadata"].get("annotations", {})


def find_seen_namespace(item: Object | None) -> tuple[Object, ...]:
    """Return the namespace as last observed, if it was; one that its Object has created counts as labeled.

    Children are composed together with the Object, because to wait for it would cost every replica an update
    of Crossplane's budget. Until it is observed, the admission policy of the cluster refuses them.
    """
    found = find_observed(item) if item is not None else None
    if item is None or found is None:
        return ()
    if not has_created(item):
        return (found,)
    metadata = found["metadata"]
    return ({**found, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **OURS}}},)


def look(requirement: Requirement, connection: Connection) -> Object:
    """Return the Object that only observes an object on a cluster."""
    metadata = {"name": requirement.name}
    if requirement.namespace:
        metadata["namespace"] = requirement.namespace
    manifest = {"apiVersion": requirement.api_version, "kind": requirement.kind, "metadata": metadata}
    looking = _object(manifest, connection, policies=("Observe",))
    query = _FOUND.get(requirement.kind)
    return {**looking, "spec": {**looking["spec"], **(_ready_when(query) if query else {}), "watch": True}}


def list_seen(item: Object | None) -> tuple[Object, ...] | Unknown:
    """Return the objects that an observing Object found."""
    if item is None:
        return Unknown("it has not been observed yet")
    if cause := problem(item):
        return () if _ABSENT.search(cause) else Unknown(cause)
    found = find_observed(item)
    return Unknown("it has not been observed yet") if found is None else (found,)


def _ready_when(query: str) -> dict[str, Any]:
    return {"readiness": {"policy": "DeriveFromCelQuery", "celQuery": query}}


def _reference(connection: Connection) -> dict[str, str]:
    return {"kind": connection.kind, "name": connection.name}


def _object(manifest: Object, connection: Connection, *, policies: tuple[str, ...] = ()) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "forProvider": {"manifest": manifest},
        "providerConfigRef": _reference(connection),
    }
    if policies:
        spec["managementPolicies"] = list(policies)
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}
