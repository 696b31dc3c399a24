"""Letting an owner go once nothing is left that it made on other clusters.

A cluster that cannot be reached holds its owners, because what is there may
still run. A person who deletes the InferenceCluster declares it gone: while the
cluster can be reached, that waits for the replicas on it; when it cannot, they
are given up with it.
"""

import logging
from collections.abc import Mapping

from modelplane.api import labels
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION
from modelplane.compose.composition import Requirement
from modelplane.controllers import ownership
from modelplane.controllers.clusters import Clusters, recorded
from modelplane.controllers.reporter import Reporter
from modelplane.controllers.writer import delete
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer, key_of
from modelplane.kube.resources import Object, resource_of

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 5.0


class Finalizer:
    """Cleans up after owners that are being deleted."""

    def __init__(
        self, client: Client, informers: Mapping[str, Informer], clusters: Clusters, reporter: Reporter
    ) -> None:
        self._client = client
        self._informers = informers
        self._clusters = clusters
        self._reporter = reporter

    @staticmethod
    def requirements(owner: Object) -> tuple[Requirement, ...]:
        """Return what an owner that is being deleted waits for."""
        if owner["kind"] == "InferenceCluster":
            return (Requirement("replicas", API_VERSION, "ModelReplica"),)
        workload = resources.DEPLOYMENTS
        own = {labels.OWNER_UID: owner["metadata"]["uid"]}
        return tuple(
            Requirement(name, workload.api_version, workload.kind, labels=own, cluster=name)
            for name in recorded(owner)
        )

    async def finalize(self, owner: Object) -> float | None:
        """Clean up, then let the owner go; return after how many seconds to look again, if at all."""
        if ownership.FINALIZER not in owner["metadata"].get("finalizers", ()):
            return None
        if owner["kind"] == "InferenceCluster":
            waiting = self._in_use(owner)
        else:
            waiting = await self._left(owner)
        if waiting:
            await self._reporter.deleting(owner, f"waiting for {listing(waiting)} to go")
            return _LOOK_AGAIN_S
        await self._release(owner)
        return None

    def _in_use(self, cluster: Object) -> list[str]:
        """Return the replicas on a cluster that can still be cleaned."""
        name = cluster["metadata"]["name"]
        replicas = [
            f'ModelReplica "{key_of(replica)}"'
            for replica in self._informers["ModelReplica"]
            if name == replica["spec"]["clusterName"] or name in recorded(replica)
        ]
        problem = self._clusters.lost(name)
        if problem and replicas:
            _log.warning("cluster %s is deleted with %d replicas on it: %s", name, len(replicas), problem)
            return []
        return replicas

    async def _left(self, owner: Object) -> list[str]:
        """Delete what is left on the recorded clusters, and return it."""
        left = []
        for name in recorded(owner):
            connection = self._clusters.get(name)
            if connection is None or connection.problem:
                if self._informers["InferenceCluster"].get(name) is not None:
                    problem = self._clusters.problem(name)
                    left.append(f'what is on "{name}", which cannot be reached ({problem}),')
                else:
                    _log.warning("%s is let go, and what it has on cluster %s", key_of(owner), name)
                continue
            uid = owner["metadata"]["uid"]
            try:
                # The cluster itself has the last word: a copy may be late, and nobody looks again.
                for child in connection.children.of(uid) or await connection.look_for(uid):
                    left.append(f'{child["kind"]} "{child["metadata"]["name"]}" on "{name}"')
                    await delete(connection.client, child)
            except errors.KubernetesError as error:
                left.append(f'what is on "{name}" ({error})')
        return left

    async def _release(self, owner: Object) -> None:
        metadata = owner["metadata"]
        finalizers = [name for name in metadata["finalizers"] if name != ownership.FINALIZER]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
        try:
            await self._client.patch(resource_of(owner), metadata["name"], patch, metadata.get("namespace"))
        except errors.NotFound:
            return
