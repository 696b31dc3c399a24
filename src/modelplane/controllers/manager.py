"""Manager: the informers, work queues and control loops of one controller process.

ModelDeployments are reconciled one at a time, because each placement must see the previous one. All other
owners are reconciled in parallel. Replicas of one cluster share a lane, so a slow cluster delays only its
own. Namespaces take turns, so that one with many owners does not delay the others. Failed reconciles are
logged and retried; only a signal ends a controller.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from operator import attrgetter

from modelplane.api import labels
from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway
from modelplane.api.kinds import kind_of
from modelplane.api.meta import SYSTEM_NAMESPACE, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_service import ModelService
from modelplane.compose.composition import Blocked, Requirement
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.kinds import COMPOSERS, Lane
from modelplane.controllers import fact_sources
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.children.ownership import owner_of
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.gateway_probes import Address, GatewayAnswers, gateway_addresses
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.clusters.token_renewal import LIFETIME_S, Credentials
from modelplane.controllers.decision_loops.autoscaling_loop import Autoscaling
from modelplane.controllers.decision_loops.canary_loop import Canaries
from modelplane.controllers.decision_loops.failover_loop import Failover
from modelplane.controllers.definition_check import Definitions
from modelplane.controllers.fact_sources import FactSource
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.gateway.budget_enforcement import Budgets, Tiers
from modelplane.controllers.gateway.gateway_admission import Admission, KeyRing, ModelList
from modelplane.controllers.gateway.gateway_certificates import (
    Certificates as GatewayCertificates,
    import_issuing,
)
from modelplane.controllers.gateway.gateway_controller import GatewayController, GatewaySources
from modelplane.controllers.gateway.mutual_tls_rollout import MutualTls
from modelplane.controllers.gateway.named_secrets import Certificates, ProviderCredentials
from modelplane.controllers.helm.helm_program import Host, Program
from modelplane.controllers.helm.release_control import Releases
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.local_copies import LocalCopies, NamedObjects
from modelplane.controllers.process_settings import allow_many, collect_seldom, take_short_turns
from modelplane.controllers.queue import WorkQueue
from modelplane.controllers.reconciler import Reconciler
from modelplane.controllers.runnable import Runnable, guarded, run_all
from modelplane.controllers.state_samples import ControllersState, Queue
from modelplane.controllers.workers import Workers
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.route_table import Front
from modelplane.host.addresses import is_loopback
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object, Resource
from modelplane.proxy.interface import Proxy
from modelplane.telemetry.metrics import record_wait

_log = logging.getLogger(__name__)

_WORKERS_PER_LANE = 4
"""Owners of one cluster that are reconciled at the same time. ModelDeployments have one worker for all."""
_POLL_S = 0.2
_CLUSTER = kind_name(InferenceCluster)
_GATEWAY = kind_name(InferenceGateway)
_KEY = kind_name(ModelKey)
_SERVICE = kind_name(ModelService)
_namespace = attrgetter("namespace")
_ANY_CLUSTER = "*"
"""The lane of owners that write to many clusters; no cluster has this name."""


class Manager:
    """Watches the control plane and every cluster, and reconciles the owners that a change concerns."""

    def __init__(
        self,
        client: Client,
        *,
        proxy: Proxy | None,
        dial: Callable[[str], str],
        fence: Fence | None = None,
        credential_lifetime_s: int = LIFETIME_S,
        helm: Program = Program(),  # noqa: B008 - it is immutable
    ) -> None:
        """``fence`` is asked before each write to a cluster; ``client`` has its own."""
        self._client = client
        self._definitions = Definitions(client)
        self._waiting = ""
        self._decisions = WorkQueue[OwnerKey](1, flow=_namespace, waited=partial(record_wait, "decisions"))
        self._work: WorkQueue[OwnerKey] = WorkQueue(
            _WORKERS_PER_LANE, self._cluster_of, _namespace, partial(record_wait, "work")
        )
        self._interests = Interests()
        self._uids: dict[str, OwnerKey] = {}
        self._informers = {
            name: Informer(client, resource_for(row.api_version, name), on_change=self._changed, holds=False)
            for name, row in COMPOSERS.items()
        }
        self._routes = proxy is not None and proxy.serves_clusters
        self._clusters = Clusters(self._cluster_changed, self._cluster_problem, fence, routes=self._routes)
        self._children = ControlPlaneChildren(
            client, self._informers, self._definitions.informer, self._child_changed
        )
        self._named = NamedObjects(client, self._named_changed, self._is_required)
        self._kubeconfigs = Kubeconfigs(client, self._informers[_CLUSTER], self._informers, self._clusters)
        self._credentials = Credentials(
            client, self._kubeconfigs, self._clusters, credential_lifetime_s, fence=fence
        )
        self._releases = self._releases_by(helm, fence)
        is_local = proxy is not None and is_loopback(proxy.listens[0])
        tiers = Tiers(
            self._informers[_SERVICE], self._informers[kind_name(ModelEndpoint)], self._services_changed
        )
        self._budgets = Budgets(proxy, tiers=tiers, changed=self._keys_changed, touch=self._touch_gateway)
        self._autoscaling = Autoscaling(client, self._informers, proxy, self._enqueue)
        self._canaries = Canaries(self._informers, proxy, self._enqueue)
        self._admission = Admission(
            self._informers[_GATEWAY],
            self._informers[_KEY],
            former=_former(proxy),
            changed=self._keys_changed,
            budgets=self._budgets,
        )
        self._mutual_tls = self._mutual_tls_by(proxy)
        self._keys = KeyRing(client, self._kubeconfigs, self._informers, self._touch_gateway, proxy)
        self._failover = Failover(
            client, self._informers, self._clusters, addresses=self._data_path, changed=self._enqueue
        )
        self._answers = GatewayAnswers(self._informers[_CLUSTER], self._clusters.find, self._enqueue)
        copies = LocalCopies(self._informers, self._children, self._clusters, self._named, self._releases)
        self._reconciler = Reconciler(client, copies, self._interests, self._sources(is_local), self._enqueue)
        self._certificates = Certificates(self._inference_gateway, self._kubeconfigs.secret)
        self._gateway = self._gateway_by(proxy, dial, is_local)

    def _sources(self, is_local: bool) -> tuple[FactSource, ...]:
        """Return the sources of facts, one for each kind whose composition reads any."""

        def gateway() -> GatewayController:
            return self._gateway  # which is made later

        return (
            fact_sources.GatewaySource(gateway, is_local),
            fact_sources.ServiceSource(gateway, is_local, self._budgets),
            fact_sources.EndpointSource(gateway, is_local),
            fact_sources.KeySource(self._admission, self._budgets),
            fact_sources.AutoscalerSource(gateway, self._autoscaling),
            fact_sources.ClusterSource(self._clusters, self._answers, self._mutual_tls, self._failover),
            fact_sources.StackSource(self._mutual_tls),
            fact_sources.DeploymentSource(
                self._canaries, self._failover, lambda: self._reconciler.watching_since
            ),
        )

    def _mutual_tls_by(self, proxy: Proxy | None) -> MutualTls:
        kubeconfigs = self._kubeconfigs
        certificates = GatewayCertificates(
            self._client, kubeconfigs.secret, kubeconfigs.remember, import_issuing
        )
        find, changed = self._clusters.find, self._link_changed
        return MutualTls(self._informers, find, certificates, former=_former(proxy), changed=changed)

    def _gateway_by(
        self, proxy: Proxy | None, dial: Callable[[str], str], is_local: bool
    ) -> GatewayController:
        models = ModelList(self._informers[_GATEWAY], self._informers[_SERVICE])

        async def front() -> Front | Blocked:
            return self._budgets.counting(models.add(await self._admission.read()))

        gateway = GatewayController(
            proxy,
            dial=dial,
            compose=self._reconciler.compose,
            clusters=self._clusters,
            opened=self._gateway_address_changed,
            settled=self._enqueue,
            settings=GatewaySources(
                destinations=lambda: self._destinations(is_local),
                front=front,
                written=self._admission.written,
                certificates=self._certificates,
                credentials=ProviderCredentials(self._named.find, _former(proxy)),
                identity=self._mutual_tls.identity,
                keys=self._keys,
            ),
        )
        self._kubeconfigs.on_secret(gateway.secret_changed)
        return gateway

    def _control_loops(self) -> tuple[Runnable, ...]:
        """Return every control loop, in the order in which they start."""
        return (
            self._kubeconfigs,
            self._kubeconfigs.identities,
            self._children,
            self._named,
            self._mutual_tls,
            self._keys,
            self._gateway,
            self._budgets,
            self._autoscaling,
            self._canaries,
            self._credentials,
            self._releases,
            self._failover,
            self._answers,
            Workers("decisions", self._decisions, self._reconciler.reconcile),
            Workers("work", self._work, self._reconciler.reconcile),
        )

    def _releases_by(self, helm: Program, fence: Fence | None) -> Releases:
        kubeconfigs = self._kubeconfigs
        host = Host(
            helm, self._clusters, kubeconfigs.secret, kubeconfigs.installer_of, self._releases_changed, fence
        )
        releases = Releases(host)
        kubeconfigs.on_secret(releases.secret_changed)
        return releases

    def state(self) -> ControllersState:
        """Return the state that metrics are read from."""
        clusters = (cluster["metadata"]["name"] for cluster in self._informers[_CLUSTER])
        queues = {"decisions": self._decisions, "work": self._work}
        return ControllersState(
            {name: Queue(len(queue), queue.running) for name, queue in queues.items()},
            {name: not self._clusters.problem(name) for name in clusters},
            {kind: tuple(informer) for kind, informer in self._informers.items() if informer.synced},
            self._certificates.expiries,
            self._failover.states,
            self._failover.paused,
        )

    @property
    def problem(self) -> str | None:
        """The cause if the control plane cannot be watched; None otherwise."""
        informers = (self._definitions.informer, *self._informers.values())
        return self._waiting or next((informer.problem for informer in informers if informer.problem), None)

    async def run(self) -> None:
        """Run until cancelled; raises ``NotOurs`` once Crossplane owns the definitions."""
        allow_many()
        collect_seldom()
        take_short_turns()
        await self._until_installed([self._definitions.informer])
        await guarded(self._run(), self._definitions.run())

    async def _run(self) -> None:
        await self._definitions.wait_until_read()
        loops = self._control_loops()
        own = [informer for loop in loops for informer in loop.informers]
        await self._until_installed([*self._informers.values(), *own])
        await run_all(loops, self._informers.values())

    async def _until_installed(self, informers: list[Informer]) -> None:
        """Wait until the kinds are installed and may be read; informers would retry less often."""
        for informer in informers:
            while problem := await self._unreadable(informer.resource):
                if problem != self._waiting:
                    _log.info("waiting: %s", problem)
                self._waiting = problem
                await asyncio.sleep(_POLL_S)
        self._waiting = ""

    async def _unreadable(self, resource: Resource) -> str | None:
        try:
            # Any name will do: the informer reads the objects.
            namespace = SYSTEM_NAMESPACE if resource.namespaced else None
            await self._client.list(resource, namespace, fields="metadata.name=any")
        except errors.KubernetesError as error:
            return str(error)
        return None

    def _enqueue(self, key: OwnerKey) -> None:
        serial = COMPOSERS[key.kind].lane is Lane.DECISIONS
        (self._decisions if serial else self._work).add(key)

    def _cluster_of(self, key: OwnerKey) -> str:
        """Return the lane of the cluster that an owner is on, which may be slow."""
        lane = COMPOSERS[key.kind].lane
        if lane is Lane.CLUSTERS:
            return _ANY_CLUSTER
        item = self._informers[key.kind].get(key.name, key.namespace)
        return str(item["spec"].get("clusterName", "")) if item and lane is Lane.CLUSTER else ""

    def _changed(self, item: Object) -> None:
        metadata = item["metadata"]
        key = OwnerKey(item["kind"], metadata.get("namespace", ""), metadata["name"])
        is_gone = self._informers[key.kind].get(key.name, key.namespace) is None
        self._uids[metadata["uid"]] = key
        self._enqueue(key)
        self._child_changed(item, is_gone=is_gone)
        self._gateway.changed(item, is_gone=is_gone)
        if is_gone:
            self._uids.pop(metadata["uid"], None)

    def _child_changed(self, item: Object, *, is_gone: bool = False) -> None:
        """Enqueue the owner of an object, and those that require it."""
        for reference in item["metadata"].get("ownerReferences", ()):
            owner = COMPOSERS.get(reference["kind"])
            if owner is not None and reference.get("controller"):
                namespace = item["metadata"].get("namespace", "") if kind_of(owner.type).namespaced else ""
                self._enqueue(OwnerKey(owner.name, namespace, reference["name"]))
        self._wake(item, is_gone=is_gone)

    def _is_required(self, requirement: Requirement) -> bool:
        return self._interests.anyone(requirement) or self._gateway.requires(requirement)

    def _named_changed(self, item: Object) -> None:
        self._wake(item)
        self._gateway.named_changed(item)

    def _wake(self, item: Object, *, is_gone: bool = False) -> None:
        for owner in self._interests.triggered_by(item, "", is_gone=is_gone):
            self._enqueue(owner)

    def _cluster_changed(self, cluster: str, item: Object) -> None:
        uid = item["metadata"].get("labels", {}).get(labels.OWNER_UID, "")
        if uid in self._uids:
            self._enqueue(self._uids[uid])
        named = OwnerKey(*owner_of(item))
        if named.kind in COMPOSERS:
            self._enqueue(named)  # it may have been taken over from an owner of that name
        for owner in self._interests.triggered_by(item, cluster):
            self._enqueue(owner)
        if self._routes:
            self._gateway.touch()

    def _releases_changed(self, uid: str) -> None:
        if uid in self._uids:
            self._enqueue(self._uids[uid])

    def _cluster_problem(self, cluster: str) -> None:
        for owner in self._interests.on(cluster):
            self._enqueue(owner)
        if self._routes:
            self._gateway.touch()

    def _inference_gateway(self) -> Object | None:
        return self._informers[_GATEWAY].get(DEFAULT_NAME)

    def _destinations(self, is_local: bool) -> Destinations | Blocked:
        gateway = self._inference_gateway()
        return fleet_gateway.destinations_of((gateway,) if gateway else (), is_local=is_local)

    def _data_path(self, cluster: str) -> Collection[Address]:
        """Return where the fleet's gateway sends the requests to a cluster."""
        if self._routes:
            return self._gateway.addresses(cluster)
        item = self._informers[_CLUSTER].get(cluster)
        return gateway_addresses(item) if item else ()

    def _services_changed(self, services: Iterable[Object]) -> None:
        for item in services:
            self._changed(item)

    def _link_changed(self, cluster: str) -> None:
        if not cluster:
            self._gateway.touch()
            return
        self._enqueue(OwnerKey(_CLUSTER, "", cluster))
        self._enqueue(OwnerKey(kind_name(ServingStack), SYSTEM_NAMESPACE, name_stack(cluster)))

    def _touch_gateway(self) -> None:
        self._gateway.touch()

    def _keys_changed(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._enqueue(OwnerKey(_KEY, *key.split("/", 1)))

    def _gateway_address_changed(self) -> None:
        for kind in (row.name for row in COMPOSERS.values() if row.follows_gateway):
            for item in self._informers[kind]:
                self._enqueue(OwnerKey(kind, *build_key(item)))


def _former(proxy: Proxy | None) -> Callable[[str], str]:
    return proxy.read_former if proxy else lambda _path: ""
