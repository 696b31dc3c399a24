"""Companions: children that only Crossplane needs.

The controllers connect to clusters, create missing namespaces, read objects on clusters and hold objects in
use by a finalizer. Under Crossplane each of these is a child of the same owner, under a key that the core
never sees.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_rows import CLUSTER_KINDS
from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import Kind, kind_of
from modelplane.api.listing import listing
from modelplane.api.meta import SYSTEM_NAMESPACE, Object, kind_name
from modelplane.api.names import check_reserved, child_name
from modelplane.api.rejected import Rejected
from modelplane.compose.clouds.provisioned import recipe_of
from modelplane.compose.cluster import cluster_namespace
from modelplane.compose.cluster.cluster_kubeconfig import KubeconfigReference, kubeconfig_reference
from modelplane.compose.composition import Composition, Desired, Requirement
from modelplane.compose.gateway.installed_gateway import list_removal_order as gateway_needs
from modelplane.compose.guards import waited_for
from modelplane.compose.serving_stack.table import list_removal_order as stack_needs
from modelplane.compose.workload_kinds import RELEASE, is_release
from modelplane.crossplane.function import remote_objects
from modelplane.crossplane.function.remote_objects import Connection

PREFIX = "crossplane-"
"""Prefix of the keys of companions; no key of the core has it."""

PROVIDER_CONFIG = f"{PREFIX}provider-config"
STACK_PROVIDER_CONFIG = f"{PREFIX}stack-provider-config"
HELM_PROVIDER_CONFIG = f"{PREFIX}helm-provider-config"
IN_USE = f"{PREFIX}in-use"
CLOUD_IN_USE = f"{PREFIX}cloud-cluster-in-use"
NAMESPACE = f"{PREFIX}{cluster_namespace.key('')}"
"""Prefix of the keys of namespaces; the cluster's name follows."""

_OF_NAMESPACE = "ProviderConfig"
OWN_CLUSTER = "modelplane-in-cluster"
"""Name of Helm's ClusterProviderConfig for the control plane's own cluster."""

_PROTECTION = "protection.crossplane.io/v1beta1"


def provider_config_name(cluster: str) -> str:
    """Return the name of the provider configurations for an InferenceCluster.

    Without a cluster, it is the one of Helm for the control plane's own cluster.
    """
    return child_name(cluster, "cluster-kubeconfig") if cluster else OWN_CLUSTER


def connection(kind: str, cluster: str) -> Connection:
    """Return the provider configuration that the children of an owner's kind use.

    A stack has its own: it is deleted together with its InferenceCluster, and its children need the
    connection until they are gone. Only a Usage in their namespace can hold it for so long.
    """
    name = provider_config_name(cluster)
    return Connection(name, _OF_NAMESPACE) if kind == kind_name(ServingStack) else Connection(name)


def looks(requirements: Iterable[Requirement]) -> dict[str, Requirement]:
    """Return the requirements that the provider reads, by the key of the observing child.

    Requirements without a name are left out: a list of pods would need a child for each pod, only to explain
    a condition.
    """
    return {
        f"{PREFIX}{requirement.key}": requirement
        for requirement in requirements
        if requirement.cluster and requirement.name
    }


def companions(
    kind: Kind,
    owner: Any,
    composition: Composition,
    requirements: Iterable[Requirement],
    composed: Mapping[str, Object],
    *,
    connects: bool = True,
) -> Iterator[tuple[str, Object]]:
    """Yield the companions of an owner, by key. Each is ready once it exists.

    ``composed`` has the observed children; ``connects`` tells whether the kubeconfig of an InferenceCluster
    is accepted.
    """
    if isinstance(owner, InferenceCluster) and connects:
        yield from _connection(owner, requirements, composed)
        if _installs(composition, composed):
            yield from _installer(owner, composed)
    for need in requirements:
        if need.key == cluster_namespace.key(need.cluster) and not check_reserved(need.name):
            written = composed.get(f"{PREFIX}{need.key}")
            used = connection(kind.name, need.cluster)
            yield f"{PREFIX}{need.key}", remote_objects.namespace(need.name, used, written)
    if isinstance(owner, ServingStack):
        yield from _of_a_stack(owner, requirements, composed)
    if isinstance(owner, InferenceGateway):
        yield from _of_a_gateway(composition, composed)
    # Other users leave on their own once they see the deletion, which a Usage would refuse.
    users = sorted(waited_for(kind.name, composition.guards))
    # A stack holds the cluster of its cloud by a Usage of the InferenceCluster, and replicas hold the stack.
    if users and not (kind.name in CLUSTER_KINDS and kind_name(ServingStack) in users):
        yield IN_USE, _usage(kind, owner.metadata.name, users)


def cluster_of_cloud(cluster: InferenceCluster, composed: Mapping[str, Object]) -> Object | None:
    """Return the cluster of a cloud that an InferenceCluster is composed of; None if there is none."""
    recipe = recipe_of(cluster.spec.cluster)
    return composed.get(recipe.key) if recipe else None


def _connection(
    cluster: InferenceCluster, requirements: Iterable[Requirement], composed: Mapping[str, Object]
) -> Iterator[tuple[str, Object]]:
    reference = kubeconfig_reference(cluster.spec.cluster, cluster_of_cloud(cluster, composed))
    if isinstance(reference, Rejected):
        return
    used = connection(kind_name(InferenceCluster), cluster.metadata.name)
    yield PROVIDER_CONFIG, _provider_config(remote_objects.API_VERSION, used, reference)
    for key, requirement in looks(requirements).items():
        # The owner is cluster-scoped, but an Object needs a namespace.
        yield key, {**remote_objects.look(requirement, used), "metadata": {"namespace": SYSTEM_NAMESPACE}}


def _installs(composition: Composition, composed: Mapping[str, Object]) -> bool:
    """Return True if a cluster has a ServingStack, whose Releases provider-helm carries out."""
    stack = kind_name(ServingStack)
    desired = (child.manifest for child in composition.children if isinstance(child, Desired))
    return any(item.get("kind") == stack for item in (*desired, *composed.values()))


def _installer(cluster: InferenceCluster, composed: Mapping[str, Object]) -> Iterator[tuple[str, Object]]:
    """Yield the connections of a cluster's stack, and the Usages that hold them until it is gone."""
    reference = kubeconfig_reference(cluster.spec.cluster, cluster_of_cloud(cluster, composed))
    if isinstance(reference, Rejected):
        return
    existing = cluster.spec.cluster.existing
    installer = reference
    if existing and (named := existing.installer_secret_ref):
        installer = KubeconfigReference(named.name, named.key)
    stack, name = kind_of(ServingStack), cluster.metadata.name
    used = connection(stack.name, name)
    user = {"apiVersion": stack.api_version, "kind": stack.name, "resourceRef": {"name": name_stack(name)}}
    for key, api_version, access in (
        (STACK_PROVIDER_CONFIG, remote_objects.API_VERSION, reference),
        (HELM_PROVIDER_CONFIG, RELEASE.api_version, installer),
    ):
        config = _provider_config(api_version, used, access)
        yield key, config
        yield f"{key}-in-use", _in_system_namespace(_needs(_named(config), user))
    if provisioned := cluster_of_cloud(cluster, composed):
        yield CLOUD_IN_USE, _in_system_namespace(_needs(_named(provisioned), user))


def _provider_config(api_version: str, used: Connection, reference: KubeconfigReference) -> Object:
    secret = {"namespace": reference.namespace, "name": reference.name, "key": reference.key}
    spec: dict[str, Any] = {"credentials": {"source": "Secret", "secretRef": secret}}
    if identity := reference.identity:
        spec["identity"] = {
            "type": str(identity.type),
            "source": "Secret",
            "secretRef": {"namespace": identity.namespace, "name": identity.name, "key": identity.key},
        }
    metadata = {"name": used.name}
    if used.kind == _OF_NAMESPACE:
        metadata["namespace"] = SYSTEM_NAMESPACE
    return {"apiVersion": api_version, "kind": used.kind, "metadata": metadata, "spec": spec}


def _of_a_stack(
    owner: ServingStack, requirements: Iterable[Requirement], composed: Mapping[str, Object]
) -> Iterator[tuple[str, Object]]:
    """Yield the namespace of a serving stack, what it looks at, and the Usages that order its deletion.

    The controllers delete objects first, and then releases, the last installed first.
    """
    if cluster := owner.spec.cluster_name:
        yield (
            f"{NAMESPACE}{cluster}",
            remote_objects.system_namespace(connection(kind_name(ServingStack), cluster)),
        )
    for key, requirement in looks(requirements).items():
        yield key, remote_objects.look(requirement, connection(kind_name(ServingStack), requirement.cluster))
    for key, needed in stack_needs():
        if key in composed and needed in composed:
            yield f"{PREFIX}{key}-needs-{needed}", _needs(_named(composed[needed]), _named(composed[key]))


def _of_a_gateway(composition: Composition, composed: Mapping[str, Object]) -> Iterator[tuple[str, Object]]:
    """Yield how provider-helm reaches the control plane's own cluster, and the Usages of what is there.

    A release that is not asked for any more may go at once: what needed it is upgraded without it, or gone.
    """
    wanted = {child.key for child in composition.children}
    manifests = [desired.manifest for desired in composition.children if isinstance(desired, Desired)]
    if any(map(is_release, (*manifests, *composed.values()))):
        yield (
            HELM_PROVIDER_CONFIG,
            {
                "apiVersion": RELEASE.api_version,
                "kind": "ClusterProviderConfig",
                "metadata": {"name": OWN_CLUSTER},
                "spec": {"credentials": {"source": "InjectedIdentity"}},
            },
        )
    for key, needed in gateway_needs():
        if key in composed and needed in composed and {key, needed} <= wanted:
            usage = _needs(_named(composed[needed]), _named(composed[key]))
            yield f"{PREFIX}{key}-needs-{needed}", _in_system_namespace(usage)


def _needs(needed: Object, user: Object) -> Object:
    """Return the Usage that holds an object until another one of its namespace is gone."""
    spec = {"of": needed, "by": user, "replayDeletion": True}
    return {"apiVersion": _PROTECTION, "kind": "Usage", "spec": spec}


def _in_system_namespace(usage: Object) -> Object:
    """Return a Usage of an owner that is cluster-scoped; a Usage needs a namespace."""
    return {**usage, "metadata": {"namespace": SYSTEM_NAMESPACE}}


def _named(item: Object) -> Object:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "resourceRef": {"name": item["metadata"]["name"]},
    }


def _usage(kind: Kind, name: str, users: list[str]) -> Object:
    """Return the Usage that refuses the deletion of an owner in use.

    It names the kinds of the users and not each object, so that it stays the same when users come and go. A
    refused deletion is not replayed: carried out minutes later, it would come as a surprise.
    """
    return {
        "apiVersion": _PROTECTION,
        "kind": "Usage" if kind.namespaced else "ClusterUsage",
        "spec": {
            "of": {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "resourceRef": {"name": name},
            },
            "reason": f"{listing(f'{user}s' for user in users)} need it: delete or move them first",
        },
    }
