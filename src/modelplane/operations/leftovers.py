"""Leftovers of a deleted namespace on inference clusters, and their deletion.

Under Crossplane each leftover is the manifest of an Object. In a namespace that is being deleted the provider
may have lost its credentials for the clusters, and then never finalizes the Object: this module deletes the
manifest in the provider's place.

An Object is released only when its manifest is observed to be gone, or the Object must not delete it.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from modelplane.api.listing import listing
from modelplane.api.meta import GROUP
from modelplane.compose.workload_kinds import has_pods
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import resource_of
from modelplane.crossplane.function import remote_objects
from modelplane.crossplane.function.applied_fields import PROVIDERS_FINALIZER
from modelplane.crossplane.function.companions import provider_config_name
from modelplane.install.waiting import Deadline
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.operations.pod_logs import ClusterUnreachable, InferenceClusters
from modelplane.user_error import UserError

_GROUP, _, _VERSION = remote_objects.API_VERSION.partition("/")
OBJECTS: Final = Resource(_GROUP, _VERSION, remote_objects.KIND, "objects")
_DELETES: Final = frozenset({"*", "Delete"})


@dataclass(frozen=True, slots=True)
class Leftover:
    """The manifest of an Object that is being deleted."""

    held: Object
    """The Object."""
    cluster: str
    found: Object | None
    """The object on the cluster; None if it is gone, or is to stay there."""

    def __str__(self) -> str:
        if self.found is None:
            return f'Object "{self.held["metadata"]["name"]}"'
        metadata = self.found["metadata"]
        return f'{self.cluster}: {self.found["kind"]} "{metadata.get("namespace", "")}/{metadata["name"]}"'


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The leftovers of a namespace, and the Objects that could not be resolved."""

    items: tuple[Leftover, ...]
    doubts: tuple[str, ...] = ()
    """Reasons why Objects are left alone, a sentence each."""

    @property
    def there(self) -> tuple[Leftover, ...]:
        """The items that are still on a cluster."""
        return tuple(leftover for leftover in self.items if leftover.found is not None)


class Cleaner:
    """Cleans up after one namespace."""

    def __init__(self, client: Client, clusters: InferenceClusters, namespace: str) -> None:
        self._client = client
        self._clusters = clusters
        self._namespace = namespace

    async def find(self, only: Collection[str] = ()) -> Leftovers:
        """Find the leftovers on these clusters, or on all. Raise ``UserError`` for a namespace in use."""
        namespace = await self._client.get(resources.NAMESPACES, self._namespace)
        if namespace is not None and "deletionTimestamp" not in namespace["metadata"]:
            raise UserError(
                f'namespace "{self._namespace}" is not being deleted: delete the namespace, or the '
                "ModelDeployments and ModelCaches in it"
            )
        clusters = await self._client.list(fleet_resources.INFERENCE_CLUSTERS)
        names = [item["metadata"]["name"] for item in clusters.items]
        cluster_of_config = {provider_config_name(name): name for name in names}
        if unknown := sorted(set(only) - set(cluster_of_config.values())):
            raise UserError(f"InferenceCluster {listing(unknown)} does not exist")
        items, doubts = [], []
        for held in await self._list_deleting():
            config = held["spec"]["providerConfigRef"]["name"]
            cluster = cluster_of_config.get(config, "")
            if only and cluster not in only:
                continue
            try:
                items.append(await self._look_up(held, cluster, config))
            except (ClusterUnreachable, errors.KubernetesError, _Doubt) as error:
                doubts.append(f'kept Object "{held["metadata"]["name"]}": {error}')
        return Leftovers(tuple(items), tuple(doubts))

    async def _list_deleting(self) -> list[Object]:
        if not await self._client.is_served(OBJECTS):
            return []
        records = (await self._client.list(OBJECTS, self._namespace)).items
        return [item for item in records if "deletionTimestamp" in item["metadata"] and _is_ours(item)]

    async def _look_up(self, held: Object, cluster: str, config: str) -> Leftover:
        """Return the leftover of an Object, as its cluster has it. Raise ``_Doubt``."""
        if not _DELETES & set(held["spec"].get("managementPolicies") or ("*",)):
            return Leftover(held, cluster, None)
        if not cluster:
            raise _Doubt(f'no InferenceCluster uses ClusterProviderConfig "{config}"')
        manifest = held["spec"]["forProvider"]["manifest"]
        client = await self._clusters.get_client(cluster)
        resource, name, namespace = _place(manifest)
        stored = await client.get(resource, name, namespace)
        if stored is None:
            # Raises if the answer came from a proxy in front of the API server.
            await client.is_served(resource)
        seen = remote_objects.find_observed(held)
        if stored is not None and seen is not None and _uid(seen) not in ("", _uid(stored)):
            raise _Doubt(f'cluster "{cluster}" contains another object with that name')
        return Leftover(held, cluster, stored)

    async def delete(self, leftovers: Leftovers, deadline: Deadline) -> None:
        """Delete the leftovers, and wait until they are gone. Raise ``NotInTime``."""
        for leftover in leftovers.there:
            item = leftover.found or {}
            client = await self._clusters.get_client(leftover.cluster)
            resource, name, namespace = _place(item)
            await client.delete(
                resource,
                name,
                namespace,
                uid=_uid(item),
                # Foreground: it is gone only after its pods have released their devices.
                propagation="Foreground" if has_pods(item) else "Background",
            )
        await deadline.wait_until_nothing(partial(self._undeleted, leftovers.there))

    async def _undeleted(self, deleted: Iterable[Leftover]) -> str:
        left = []
        for leftover in deleted:
            client = await self._clusters.get_client(leftover.cluster)
            stored = await client.get(*_place(leftover.found or {}))
            if stored is not None and _uid(stored) == _uid(leftover.found or {}):
                left.append(str(leftover))
        return f"{listing(left)} still exists" if left else ""

    async def release(self, leftovers: Leftovers) -> int:
        """Take the finalizer off the Objects; return their number.

        Their manifests must be gone, which ``delete`` waits for: it is not checked here.
        """
        for leftover in leftovers.items:
            metadata = leftover.held["metadata"]
            kept = [one for one in metadata.get("finalizers", ()) if one != PROVIDERS_FINALIZER]
            body = {"metadata": {"finalizers": kept, "resourceVersion": metadata["resourceVersion"]}}
            with suppress(errors.NotFound):  # the provider was faster
                await self._client.patch(OBJECTS, metadata["name"], body, self._namespace)
        return len(leftovers.items)


class _Doubt(Exception):
    """The reason why an Object's manifest cannot be resolved."""


def _place(manifest: Mapping[str, object]) -> tuple[Resource, str, str | None]:
    """Return the resource, name and namespace of an object."""
    try:
        resource = resource_of(manifest)
    except KeyError as error:
        raise _Doubt(str(error.args[0])) from error
    metadata = manifest["metadata"]
    if not isinstance(metadata, Mapping):
        raise _Doubt("the manifest has no metadata")
    return resource, str(metadata["name"]), metadata.get("namespace") if resource.namespaced else None


def _is_ours(item: Object) -> bool:
    owners = item["metadata"].get("ownerReferences", ())
    return any(str(owner["apiVersion"]).startswith(f"{GROUP}/") for owner in owners)


def _uid(item: Mapping[str, Object]) -> str:
    return str(item["metadata"].get("uid", ""))
