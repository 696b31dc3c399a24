"""One controller process: what it watches, and who works on what.

ModelDeployments are worked on one at a time, because each placement must see
the one before it. Everything else is independent and goes in parallel; a
replica's work goes with that of its cluster, so that a slow cluster holds up
only its own. What fails is logged and tried again: only a signal ends a
controller.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from modelplane.api import labels
from modelplane.api.cluster_origin import Source
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE, kind_name
from modelplane.compose.kinds import COMPOSERS, Lane
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.engine_check import Definitions
from modelplane.controllers.garbage import collect_seldom
from modelplane.controllers.gateway_controller import GatewayController
from modelplane.controllers.guarded import guarded
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.named import NamedObjects
from modelplane.controllers.open_files import allow_many
from modelplane.controllers.ownership import owner_of
from modelplane.controllers.queue import WorkQueue
from modelplane.controllers.reconciler import NotYet, Reconciler
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.informer import Informer, key_of
from modelplane.kube.resources import Object, Resource, resource_for
from modelplane.proxy.interface import Proxy
from modelplane.telemetry import log_lines, metrics, traces
from modelplane.telemetry.observed import Queue, State
from modelplane.telemetry.table import Result

_log = logging.getLogger(__name__)

_AT_A_TIME = 4
_POLL_S = 0.2
_RETRY_S = 5.0
_CLUSTER = kind_name(InferenceCluster)
_ANY_CLUSTER = "*"
"""The lane of owners that write to many clusters; no cluster has this name."""


class Manager:
    """Watches the control plane and every cluster, and reconciles what changes concern."""

    def __init__(
        self,
        client: Client,
        *,
        proxy: Proxy | None,
        dial: Callable[[str], str],
        fence: Fence | None = None,
    ) -> None:
        """``fence`` is asked before each write to a cluster; ``client`` has its own."""
        self._client = client
        self._definitions = Definitions(client)
        self._waiting = ""
        self._decisions: WorkQueue[OwnerKey] = WorkQueue(1, waited=partial(metrics.waited, "decisions"))
        self._work: WorkQueue[OwnerKey] = WorkQueue(
            _AT_A_TIME, self._cluster_of, partial(metrics.waited, "work")
        )
        self._interests = Interests()
        self._uids: dict[str, OwnerKey] = {}
        self._informers = {
            name: Informer(client, resource_for(API_VERSION, name), on_change=self._changed)
            for name in COMPOSERS
        }
        self._secrets = Informer(
            client, resources.SECRETS, namespace=SYSTEM_NAMESPACE, on_change=self._secret_changed
        )
        self._routes = proxy is not None and proxy.serves_clusters
        self._clusters = Clusters(self._cluster_changed, self._cluster_problem, fence, routes=self._routes)
        self._named = NamedObjects(client, self._wake, self._interests.anyone)
        self._reconciler = Reconciler(
            client,
            self._informers,
            self._clusters,
            self._named,
            self._interests,
            lambda: self._gateway.address,
        )
        self._gateway = GatewayController(
            proxy,
            dial=dial,
            compose=self._reconciler.compose,
            clusters=self._clusters,
            opened=self._gateway_address_changed,
        )

    def state(self) -> State:
        """Return what metrics are read from."""
        clusters = (cluster["metadata"]["name"] for cluster in self._informers[_CLUSTER])
        queues = {"decisions": self._decisions, "work": self._work}
        return State(
            {name: Queue(len(queue), queue.running) for name, queue in queues.items()},
            {name: not self._clusters.problem(name) for name in clusters},
            {kind: tuple(informer) for kind, informer in self._informers.items() if informer.synced},
        )

    @property
    def problem(self) -> str:
        """Why the control plane does not tell what changes; empty while it does."""
        informers = (self._definitions.informer, *self._informers.values())
        return self._waiting or next((each.problem for each in informers if each.problem), "")

    async def run(self) -> None:
        """Work until cancelled; raises ``NotOurs`` once the kinds are another engine's."""
        allow_many()
        collect_seldom()
        await self._until_installed([self._definitions.informer])
        await guarded(self._run(), self._definitions.run())

    async def _run(self) -> None:
        await self._definitions.wait_until_read()
        informers = [*self._informers.values(), self._secrets, *self._gateway.informers]
        await self._until_installed(informers)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
                for informer in informers:
                    await informer.wait_until_synced()
                await self._connect_all()
                _log.info("watching %d kinds", len(informers))
                group.create_task(_always(self._gateway.run))
                for queue in (self._decisions, self._work):
                    group.create_task(self._dispatch(queue, group))
        finally:
            await self._named.close()
            await self._clusters.close()

    async def _until_installed(self, informers: list[Informer]) -> None:
        """Wait for the kinds and the permission to read them, without the informers' long patience."""
        for informer in informers:
            while problem := await self._unreadable(informer.resource):
                if problem != self._waiting:
                    _log.info("waiting: %s", problem)
                self._waiting = problem
                await asyncio.sleep(_POLL_S)
        self._waiting = ""

    async def _unreadable(self, resource: Resource) -> str:
        try:
            # Any name will do: the objects are the informer's to read.
            namespace = SYSTEM_NAMESPACE if resource.namespaced else None
            await self._client.list(resource, namespace, fields="metadata.name=any")
        except errors.KubernetesError as error:
            return str(error)
        return ""

    def _enqueue(self, key: OwnerKey) -> None:
        serial = COMPOSERS[key.kind].lane is Lane.DECISIONS
        (self._decisions if serial else self._work).add(key)

    def _cluster_of(self, key: OwnerKey) -> str:
        """Return the lane of the cluster whose slowness the work on an owner may suffer from."""
        lane = COMPOSERS[key.kind].lane
        if lane is Lane.CLUSTERS:
            return _ANY_CLUSTER
        item = self._informers[key.kind].get(key.name, key.namespace)
        return str(item["spec"]["clusterName"]) if item and lane is Lane.CLUSTER else ""

    def _changed(self, item: Object) -> None:
        metadata = item["metadata"]
        key = OwnerKey(item["kind"], metadata.get("namespace", ""), metadata["name"])
        self._uids[metadata["uid"]] = key
        self._enqueue(key)
        for reference in metadata.get("ownerReferences", ()):
            if reference.get("controller") and reference["kind"] in COMPOSERS:
                self._enqueue(OwnerKey(reference["kind"], key.namespace, reference["name"]))
        self._wake(item)
        self._gateway.changed(item)
        if COMPOSERS[key.kind].connects:
            self._connect(key.name)
        if self._informers[key.kind].get(key.name, key.namespace) is None:
            self._uids.pop(metadata["uid"], None)

    def _wake(self, item: Object) -> None:
        for owner in self._interests.triggered_by(item, ""):
            self._enqueue(owner)

    def _secret_changed(self, secret: Object) -> None:
        for cluster in self._informers[_CLUSTER]:
            existing = cluster["spec"]["cluster"].get("existing", {})
            if existing.get("secretRef", {}).get("name") == secret["metadata"]["name"]:
                self._connect(cluster["metadata"]["name"])

    async def _connect_all(self) -> None:
        for cluster in self._informers[_CLUSTER]:
            self._connect(cluster["metadata"]["name"])
            await asyncio.sleep(0)  # a thousand kubeconfigs take seconds, and the lease is to be renewed

    def _connect(self, name: str) -> None:
        if not self._secrets.synced:
            return
        cluster = self._informers[_CLUSTER].get(name)
        if cluster is None:
            self._clusters.disconnect(name)
            return
        origin = cluster["spec"]["cluster"]
        if origin["source"] != Source.EXISTING:
            self._clusters.refuse(name, f"a cluster of source {origin['source']} has no kubeconfig yet")
            return
        reference = origin["existing"]["secretRef"]
        secret = self._secrets.get(reference["name"], SYSTEM_NAMESPACE)
        where = f'Secret "{reference["name"]}" in namespace "{SYSTEM_NAMESPACE}"'
        self._clusters.connect(name, secret, reference.get("key", "kubeconfig"), where)

    def _cluster_changed(self, cluster: str, item: Object) -> None:
        uid = item["metadata"].get("labels", {}).get(labels.OWNER_UID, "")
        if uid in self._uids:
            self._enqueue(self._uids[uid])
        named = OwnerKey(*owner_of(item))
        if named.kind in COMPOSERS:
            self._enqueue(named)  # it may have been taken from an owner of that name
        for owner in self._interests.triggered_by(item, cluster):
            self._enqueue(owner)
        if self._routes:
            self._gateway.touch()

    def _cluster_problem(self, cluster: str) -> None:
        for owner in self._interests.on(cluster):
            self._enqueue(owner)
        if self._routes:
            self._gateway.touch()

    def _gateway_address_changed(self) -> None:
        for kind in (row.name for row in COMPOSERS.values() if row.follows_gateway):
            for item in self._informers[kind]:
                self._enqueue(OwnerKey(kind, *key_of(item)))

    async def _dispatch(self, queue: WorkQueue[OwnerKey], group: asyncio.TaskGroup) -> None:
        while True:
            key = await queue.get()
            group.create_task(self._work_on(key, queue))

    async def _work_on(self, key: OwnerKey, queue: WorkQueue[OwnerKey]) -> None:
        about = key._asdict()
        began = time.monotonic()
        with traces.span("reconcile", **about) as span:
            result = await self._reconciled(key, queue, span)
            span.set(result=result)
            duration_s = time.monotonic() - began
            fields = log_lines.fields(**about, duration_s=round(duration_s, 6))
            _log.debug("%s: %s", key, result, extra=fields)
        metrics.reconciled(key.kind, result, duration_s)

    async def _reconciled(self, key: OwnerKey, queue: WorkQueue[OwnerKey], span: traces.Span) -> Result:
        extra = log_lines.fields(**key._asdict())
        try:
            later_s = await self._reconciler.reconcile(key)
        except (NotYet, errors.KubernetesError) as problem:
            delay_s = queue.failed(key)
            span.failed(str(problem))
            _log.info("%s: %s; trying again in %.1f s", key, problem, delay_s, extra=extra)
            return Result.RETRY
        except Exception:  # noqa: BLE001 - one bad object must not stop all others
            delay_s = queue.failed(key)
            span.failed("a bug")
            _log.exception("%s: a bug; trying again in %.1f s", key, delay_s, extra=extra)
            return Result.BUG
        queue.done(key)
        if later_s is None:
            return Result.SUCCESS
        queue.add_later(key, later_s)
        return Result.REQUEUE_AFTER


async def _always(run: Callable[[], Awaitable[None]]) -> None:
    """Run what is not to end, and again when a bug ends it."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - the rest of the controller need not go down with it
            _log.exception("a bug; going on in %.0f s", _RETRY_S)
            await asyncio.sleep(_RETRY_S)
        else:
            return
