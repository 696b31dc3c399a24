"""One controller process: what it watches, and who works on what.

ModelDeployments are worked on one at a time, because each placement must see
the one before it. Everything else is independent and goes in parallel.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from modelplane.api import labels
from modelplane.controllers.clusters import Clusters
from modelplane.controllers.front_door import FrontDoor, Write
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.kinds import KINDS
from modelplane.controllers.queue import WorkQueue
from modelplane.controllers.reconciler import NotYet, Reconciler
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource

_log = logging.getLogger(__name__)

_WORKERS = 4
_POLL_S = 0.2
_SYSTEM_NAMESPACE = "modelplane-system"
_SERIAL = "ModelDeployment"


class Manager:
    """Watches the control plane and every cluster, and reconciles what changes concern."""

    def __init__(
        self,
        client: Client,
        *,
        front_door: str,
        gateway_dir: Path | None,
        write: Write | None,
        dial: Callable[[str], str],
    ) -> None:
        self._client = client
        self._decisions: WorkQueue[OwnerKey] = WorkQueue()
        self._work: WorkQueue[OwnerKey] = WorkQueue()
        self._interests = Interests()
        self._uids: dict[str, OwnerKey] = {}
        self._informers = {
            name: Informer(client, kind.resource, on_change=self._changed) for name, kind in KINDS.items()
        }
        self._secrets = Informer(
            client, resources.SECRETS, namespace=_SYSTEM_NAMESPACE, on_change=self._secret_changed
        )
        self._clusters = Clusters(self._cluster_changed, self._cluster_problem)
        self._front_door = FrontDoor(
            address=front_door,
            directory=gateway_dir,
            write=write,
            dial=dial,
            services=self._informers["ModelService"],
            endpoints=self._informers["ModelEndpoint"],
            clusters=self._clusters,
            opened=self._front_door_opened,
        )
        self._reconciler = Reconciler(
            client, self._informers, self._clusters, self._interests, lambda: self._front_door.open_at
        )

    async def run(self) -> None:
        """Work until cancelled."""
        informers = [*self._informers.values(), self._secrets]
        await self._until_installed(informers)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            for informer in informers:
                await informer.wait_until_synced()
            self._connect_all()
            _log.info("watching %d kinds", len(informers))
            group.create_task(self._clusters.run())
            group.create_task(self._front_door.run())
            group.create_task(self._worker(self._decisions))
            for _ in range(_WORKERS):
                group.create_task(self._worker(self._work))

    async def _until_installed(self, informers: list[Informer]) -> None:
        """Wait for the kinds and the permission to read them, without the informers' long patience."""
        waiting = ""
        for informer in informers:
            while problem := await self._unreadable(informer.resource):
                if problem != waiting:
                    _log.info("waiting: %s", problem)
                waiting = problem
                await asyncio.sleep(_POLL_S)

    async def _unreadable(self, resource: Resource) -> str:
        try:
            await self._client.list(resource, _SYSTEM_NAMESPACE if resource.namespaced else None)
        except errors.KubernetesError as error:
            return str(error)
        return ""

    def _enqueue(self, key: OwnerKey) -> None:
        (self._decisions if key.kind == _SERIAL else self._work).add(key)

    def _changed(self, item: Object) -> None:
        metadata = item["metadata"]
        key = OwnerKey(item["kind"], metadata.get("namespace", ""), metadata["name"])
        self._uids[metadata["uid"]] = key
        self._enqueue(key)
        for reference in metadata.get("ownerReferences", ()):
            if reference.get("controller") and reference["kind"] in KINDS:
                self._enqueue(OwnerKey(reference["kind"], key.namespace, reference["name"]))
        for owner in self._interests.woken_by(item, ""):
            self._enqueue(owner)
        if key.kind == "InferenceCluster":
            self._connect(key.name)
        if key.kind in {"ModelService", "ModelEndpoint"}:
            self._front_door.touch()
        if self._informers[key.kind].get(key.name, key.namespace) is None:
            self._uids.pop(metadata["uid"], None)

    def _secret_changed(self, _secret: Object) -> None:
        if self._secrets.synced:
            self._connect_all()

    def _connect_all(self) -> None:
        for cluster in self._informers["InferenceCluster"]:
            self._connect(cluster["metadata"]["name"])

    def _connect(self, name: str) -> None:
        if not self._secrets.synced:
            return
        cluster = self._informers["InferenceCluster"].get(name)
        if cluster is None:
            self._clusters.disconnect(name)
            return
        existing = cluster["spec"]["cluster"].get("existing")
        if existing is None:
            return
        reference = existing["secretRef"]
        secret = self._secrets.get(reference["name"], _SYSTEM_NAMESPACE)
        where = f'Secret "{reference["name"]}" in namespace "{_SYSTEM_NAMESPACE}"'
        self._clusters.connect(name, secret, reference.get("key", "kubeconfig"), where)

    def _cluster_changed(self, cluster: str, item: Object) -> None:
        uid = item["metadata"].get("labels", {}).get(labels.OWNER_UID, "")
        if uid in self._uids:
            self._enqueue(self._uids[uid])
        for owner in self._interests.woken_by(item, cluster):
            self._enqueue(owner)
        self._front_door.touch()

    def _cluster_problem(self, cluster: str) -> None:
        self._enqueue(OwnerKey("InferenceCluster", "", cluster))
        for replica in self._informers["ModelReplica"]:
            if replica["spec"]["clusterName"] == cluster:
                metadata = replica["metadata"]
                self._enqueue(OwnerKey("ModelReplica", metadata["namespace"], metadata["name"]))

    def _front_door_opened(self) -> None:
        for gateway in self._informers["InferenceGateway"]:
            self._enqueue(OwnerKey("InferenceGateway", "", gateway["metadata"]["name"]))

    async def _worker(self, queue: WorkQueue[OwnerKey]) -> None:
        while True:
            key = await queue.get()
            try:
                later_s = await self._reconciler.reconcile(key)
            except (NotYet, errors.KubernetesError) as problem:
                delay_s = queue.failed(key)
                _log.info("%s: %s; trying again in %.1f s", key, problem, delay_s)
            except Exception:  # noqa: BLE001 - one bad object must not stop all others
                delay_s = queue.failed(key)
                _log.exception("%s: a bug; trying again in %.1f s", key, delay_s)
            else:
                queue.done(key)
                if later_s is not None:
                    queue.add_later(key, later_s)
