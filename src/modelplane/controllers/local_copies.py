"""Local copies: the objects that a reconcile reads, without a request to any server.

Single objects of kinds that are not watched as a whole have copies too. A Secret that a cache names is
watched by its name. No other Secret is ever requested. A copy lives as long as an owner requires it. Each
copy is a watch, so their number is limited for each namespace.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from modelplane.api import labels
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.children import adoption
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.children.ownership import ChildIndex
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.helm.release_control import Releases
from modelplane.controllers.runnable import Runnable, cancel_all
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource

_POLL_S = 0.1
_SWEEP_S = 10.0

MOST_PER_NAMESPACE = 256
"""Maximum of different objects that the owners of one namespace can name."""


class _Name(NamedTuple):
    resource: Resource
    namespace: str
    name: str


class _Copy(NamedTuple):
    requirement: Requirement
    informer: Informer
    task: asyncio.Task[None]


class NamedObjects(Runnable):
    """Copies of the objects that owners require by name."""

    name = "named objects"

    def __init__(
        self, client: Client, changed: Callable[[Object], None], required: Callable[[Requirement], bool]
    ) -> None:
        """``changed`` is called with an object that changed, or that was found missing or unreadable."""
        self._client = client
        self._changed = changed
        self._required = required
        self._copies: defaultdict[str, dict[_Name, _Copy]] = defaultdict(dict)  # by namespace
        self._refused: dict[_Name, Requirement] = {}

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the object that a requirement names, or the cause if it is unknown."""
        resource = resource_for(requirement.api_version, requirement.kind)
        name = _Name(resource, requirement.namespace, requirement.name)
        copies = self._copies[name.namespace]
        if name not in copies:
            self._drop_unused(name.namespace)
            # An object without a namespace is the platform team's, or a namespace itself.
            if name.namespace and len(copies) >= MOST_PER_NAMESPACE:
                self._refused[name] = requirement
                return Unknown(
                    f'cannot watch {resource.kind} "{name.name}": at most {MOST_PER_NAMESPACE} Secrets and '
                    f'ConfigMaps are watched for namespace "{name.namespace}": let some of its objects name '
                    "the same ones"
                )
            informer = Informer(
                self._client,
                resource,
                namespace=name.namespace or None,
                fields=f"metadata.name={name.name}",
                on_change=self._changed,
            )
            task = asyncio.create_task(self._run(name, informer))
            copies[name] = _Copy(requirement, informer, task)
        informer = copies[name].informer
        if not informer.synced:
            return Unknown(informer.problem or "it is still being read", loading=not informer.problem)
        found = informer.get(requirement.name, requirement.namespace)
        return () if found is None else (found,)

    async def run(self) -> None:
        """Tell the owners of refused names once their namespace names fewer objects."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            for name, requirement in tuple(self._refused.items()):
                self._drop_unused(name.namespace)
                if len(self._copies[name.namespace]) < MOST_PER_NAMESPACE or not self._required(requirement):
                    del self._refused[name]
                    self._changed(_absent(name))

    async def _run(self, name: _Name, informer: Informer) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            while not (informer.synced or informer.problem):
                await asyncio.sleep(_POLL_S)
            self._changed(_absent(name))
            if not informer.synced:
                await informer.wait_until_synced()
                self._changed(_absent(name))

    def _drop_unused(self, namespace: str) -> None:
        copies = self._copies[namespace]
        for name, copy in tuple(copies.items()):
            if not self._required(copy.requirement):
                copy.task.cancel()
                del copies[name]

    async def close(self) -> None:
        """Stop every watch."""
        await cancel_all([copy.task for copies in self._copies.values() for copy in copies.values()])


def _absent(name: _Name) -> Object:
    """Return an object that stands for any change of the named one."""
    return {
        "apiVersion": name.resource.api_version,
        "kind": name.resource.kind,
        "metadata": {"name": name.name, "namespace": name.namespace},
    }


class LocalCopies:
    """The objects of the control plane and of every cluster, as they were last seen."""

    def __init__(
        self,
        informers: Mapping[str, Informer],
        children: ControlPlaneChildren,
        clusters: Clusters,
        named: NamedObjects,
        releases: Releases,
    ) -> None:
        self.informers = informers
        self.children = children
        self.clusters = clusters
        self.releases = releases
        self._named = named
        # A cluster's own reconcile reads what is on it, however much the fleet has.
        self._on_cluster = {
            name: ChildIndex(lambda item: item["metadata"].get("labels", {}).get(labels.CLUSTER, ""))
            for name, row in COMPOSERS.items()
            if row.on_clusters
        }
        for name, index in self._on_cluster.items():
            index.follow(informers[name])

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects of a requirement, or why they are not known."""
        if requirement.cluster:
            return self.clusters.find(requirement)
        informer = self.informers.get(requirement.kind)
        if informer is None:
            return self._named.find(requirement)
        cluster = requirement.labels.get(labels.CLUSTER)
        if cluster and requirement.kind in self._on_cluster:
            return tuple(filter(requirement.matches, self._on_cluster[requirement.kind].of(cluster)))
        if requirement.name:
            named = informer.get(requirement.name, requirement.namespace)
            return () if named is None else (named,)
        found = informer.in_namespace(requirement.namespace) if requirement.namespace else tuple(informer)
        is_narrow = requirement.labels or requirement.with_status
        return tuple(filter(requirement.matches, found)) if is_narrow else found

    def observed(self, owner: Object, clusters: Collection[str]) -> dict[str, Object]:
        """Return an owner's children on the control plane, and on the clusters that it now looks at."""
        observed = self.children.index.keyed(owner["metadata"]["uid"])
        for connection in self.clusters.recorded(owner):
            if connection.name in clusters:
                observed |= adoption.keyed(owner, connection.children)
        return observed | self.releases.observed(owner)
