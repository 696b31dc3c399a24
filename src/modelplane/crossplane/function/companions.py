"""Companions: children that only Crossplane needs.

The controllers connect to clusters, create missing namespaces, read objects on clusters and hold objects in
use by a finalizer. Under Crossplane each of these is a child of the same owner, under a key that the core
never sees.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import Kind
from modelplane.api.listing import listing
from modelplane.api.meta import SYSTEM_NAMESPACE, Object, kind_name
from modelplane.api.names import child_name
from modelplane.api.namespaces import reserved
from modelplane.api.rejected import Rejected
from modelplane.api.serving_stack import ServingStack
from modelplane.compose import cluster_namespace
from modelplane.compose.clouds.provisioned import recipe_of
from modelplane.compose.cluster_kubeconfig import KubeconfigReference, kubeconfig_reference
from modelplane.compose.composition import Composition, Desired, Requirement
from modelplane.compose.guards import waited_for
from modelplane.compose.serving_stack.table import needs
from modelplane.compose.workload_kinds import RELEASE
from modelplane.crossplane.function import remote

PREFIX = "crossplane-"
"""Prefix of the keys of companions; no key of the core has it."""

PROVIDER_CONFIG = f"{PREFIX}provider-config"
HELM_PROVIDER_CONFIG = f"{PREFIX}helm-provider-config"
IN_USE = f"{PREFIX}in-use"
NAMESPACE = f"{PREFIX}{cluster_namespace.key('')}"
"""Prefix of the keys of namespaces; the cluster's name follows."""

_PROTECTION = "protection.crossplane.io/v1beta1"


def provider_config_name(cluster: str) -> str:
    """Return the name of the ClusterProviderConfigs for an InferenceCluster, of Kubernetes and of Helm."""
    return child_name(cluster, "cluster-kubeconfig")


def looks(requirements: Iterable[Requirement]) -> dict[str, Requirement]:
    """Return the requirements that the provider reads, by the key of the observing child.

    Requirements without a name are left out: a list of pods would need a child for each pod, only to explain
    a condition.
    """
    return {f"{PREFIX}{each.key}": each for each in requirements if each.cluster and each.name}


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
    for each in requirements:
        if each.key == cluster_namespace.key(each.cluster) and not reserved(each.name):
            written = composed.get(f"{PREFIX}{each.key}")
            config = provider_config_name(each.cluster)
            yield f"{PREFIX}{each.key}", remote.namespace(each.name, config, written)
    if isinstance(owner, ServingStack):
        yield from _of_a_stack(requirements, composed)
    # Other users leave on their own once they see the deletion, which a Usage would refuse.
    if users := sorted(waited_for(kind.name, composition.guards)):
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
    name = provider_config_name(cluster.metadata.name)
    yield PROVIDER_CONFIG, _provider_config(remote.API_VERSION, name, reference)
    for key, requirement in looks(requirements).items():
        # The owner is cluster-scoped, but an Object needs a namespace.
        yield key, {**remote.look(requirement, name), "metadata": {"namespace": SYSTEM_NAMESPACE}}


def _installs(composition: Composition, composed: Mapping[str, Object]) -> bool:
    """Return True if a cluster has a ServingStack, whose Releases provider-helm carries out."""
    stack = kind_name(ServingStack)
    desired = (each.manifest for each in composition.children if isinstance(each, Desired))
    return any(each.get("kind") == stack for each in (*desired, *composed.values()))


def _installer(cluster: InferenceCluster, composed: Mapping[str, Object]) -> Iterator[tuple[str, Object]]:
    reference = kubeconfig_reference(cluster.spec.cluster, cluster_of_cloud(cluster, composed))
    if isinstance(reference, Rejected):
        return
    existing = cluster.spec.cluster.existing
    if existing and (named := existing.installer_secret_ref):
        reference = KubeconfigReference(named.name, named.key)
    name = provider_config_name(cluster.metadata.name)
    yield HELM_PROVIDER_CONFIG, _provider_config(RELEASE.api_version, name, reference)


def _provider_config(api_version: str, name: str, reference: KubeconfigReference) -> Object:
    secret = {"namespace": reference.namespace, "name": reference.name, "key": reference.key}
    spec: dict[str, Any] = {"credentials": {"source": "Secret", "secretRef": secret}}
    if identity := reference.identity:
        spec["identity"] = {
            "type": str(identity.type),
            "source": "Secret",
            "secretRef": {"namespace": identity.namespace, "name": identity.name, "key": identity.key},
        }
    return {
        "apiVersion": api_version,
        "kind": "ClusterProviderConfig",
        "metadata": {"name": name},
        "spec": spec,
    }


def _of_a_stack(
    requirements: Iterable[Requirement], composed: Mapping[str, Object]
) -> Iterator[tuple[str, Object]]:
    """Yield what a serving stack looks at, and the Usages that delete its components in the right order.

    The controllers delete objects first, and then releases, the last installed first.
    """
    for key, requirement in looks(requirements).items():
        yield key, remote.look(requirement, provider_config_name(requirement.cluster))
    for key, needed in needs():
        if key in composed and needed in composed:
            spec = {"of": _named(composed[needed]), "by": _named(composed[key]), "replayDeletion": True}
            manifest = {"apiVersion": _PROTECTION, "kind": "Usage", "spec": spec}
            yield f"{PREFIX}{key}-needs-{needed}", manifest


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
