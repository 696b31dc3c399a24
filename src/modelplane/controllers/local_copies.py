"""Local copies: the objects that a reconcile reads, without a request to any server."""

from collections.abc import Collection, Mapping

from modelplane.api import labels
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.children import adoption
from modelplane.controllers.children.child_index import ChildIndex
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.helm.release_control import Releases
from modelplane.controllers.named_objects import NamedObjects
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object


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
            name: _by_cluster(informers[name]) for name, row in COMPOSERS.items() if row.on_clusters
        }

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


def _by_cluster(informer: Informer) -> ChildIndex:
    index = ChildIndex(lambda item: item["metadata"].get("labels", {}).get(labels.CLUSTER, ""))
    index.follow(informer)
    return index
