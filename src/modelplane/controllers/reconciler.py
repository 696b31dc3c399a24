"""Reconcile one owner: observe, compose, apply, prune, report status.

The owner, its children and the objects that it requires are read from local copies. The status is written
last, if it changed. All state is in the objects: after a crash the next controller continues.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from itertools import filterfalse
from typing import Any

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Model, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_key import ModelKey
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose import guards
from modelplane.compose.composition import Blocked, Composition, Request, Requirement, Unknown
from modelplane.compose.kinds import COMPOSERS, Composer, Lane
from modelplane.controllers.children import adoption
from modelplane.controllers.children.child_index import ChildIndex
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.deciders.autoscaling_loop import Autoscaling
from modelplane.controllers.deciders.canary_loop import Canaries
from modelplane.controllers.finalizer import Finalizer
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.controllers.gateway.fleet_routes import Composed
from modelplane.controllers.helm.release_control import Releases
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.named_objects import NamedObjects
from modelplane.controllers.reporter import Reporter
from modelplane.controllers.writer import Writer
from modelplane.deciders.cluster_health import Watched
from modelplane.gateway.endpoint_share import EndpointShare
from modelplane.gateway.mutual_tls import Link
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.interface import GatewayAddress
from modelplane.telemetry import traces

_REPLICA = kind_name(ModelReplica)
_SERVICE = kind_name(ModelService)


class NotYet(Exception):
    """Something could not be written; the message says what, and it is tried again."""


class Reconciler:
    """Reconciles one owner at a time, as often as it is asked to."""

    def __init__(  # noqa: PLR0913, PLR0917  one for each source of a request
        self,
        client: Client,
        informers: Mapping[str, Informer],
        children: ControlPlaneChildren,
        clusters: Clusters,
        named: NamedObjects,
        interests: Interests,
        gateway_address: Callable[[], GatewayAddress],
        key_problem: Callable[[ModelKey], str | None],
        releases: Releases,
        gateway_is_local: bool = False,
        budgets: Budgets | None = None,
        links: Callable[[str], Link | Unknown | None] = lambda _cluster: None,
        autoscaling: Autoscaling | None = None,
        canaries: Canaries | None = None,
        watched: Callable[[Model], Watched | None] = lambda _owner: None,
        wake: Callable[[OwnerKey], None] = lambda _key: None,
        share: Callable[[OwnerKey], EndpointShare | None] = lambda _key: None,
        key_refused: Callable[[ModelKey], frozenset[str]] = lambda _key: frozenset(),
        gateway_answer: Callable[[str], str | None] = lambda _cluster: None,
    ) -> None:
        self._informers = informers
        self._clusters = clusters
        self._named = named
        self._interests = interests
        self._gateway_address = gateway_address
        self._key_problem = key_problem
        self._key_refused = key_refused
        self._budgets = budgets
        self._links = links
        self._autoscaling = autoscaling
        self._canaries = canaries
        self._watched = watched
        self._wake = wake
        self._share = share
        self._gateway_answer = gateway_answer
        self._gateway_is_local = gateway_is_local
        self._watching_since: datetime | None = None
        self._children = children.index
        # A cluster's own reconcile reads its replicas, however many the fleet has.
        self._on_cluster = ChildIndex(lambda item: item["metadata"].get("labels", {}).get(labels.CLUSTER, ""))
        self._on_cluster.follow(informers[_REPLICA])
        self._releases = releases
        self._reporter = Reporter(client, informers)
        self._writer = Writer(client, informers, clusters, children, releases, self._reporter)
        self._finalizer = Finalizer(client, informers, clusters, self._children, releases, self._reporter)

    async def reconcile(self, key: OwnerKey) -> float | None:
        """Bring one owner up to date; return after how many seconds to look again, if at all.

        Raises ``NotYet`` or ``KubernetesError`` where something is to be tried again soon.
        """
        owner = self._informers[key.kind].get(key.name, key.namespace)
        if owner is None:
            self._interests.forget(key)
            return None
        if "deletionTimestamp" in owner["metadata"]:
            self._interests.set(key, self._finalizer.requirements(owner))
            return await self._finalizer.finalize(owner)
        kind = COMPOSERS[key.kind]
        try:
            decoded = decode_as(kind.type, owner)
        except InvalidObject as error:
            await self._reporter.blocked(owner, str(error))
            return None
        requirements = self._requirements(kind, decoded)
        # What the last composition watched triggers another one until this one says anew what it watches.
        watched = self._interests.of(key)
        self._interests.set(key, (*requirements, *(each for each in watched if each not in requirements)))
        clusters = _clusters(requirements)
        observed = self._observed(owner, clusters)
        request = self._request(decoded, observed, requirements)
        if self._loading(owner, request):
            return None  # its loading ends with another reconcile
        composition = await _composed(key.kind, request)
        if isinstance(composition, Blocked):
            self._interests.set_unsatisfied(key, True)
            late = self._changed_since(request, requirements)
            await self._reporter.blocked(owner, composition.cause)
            return 0.0 if late else None
        self._interests.set(key, (*requirements, *composition.also_watch))
        # What triggers it only from now on may have changed while it was composed.
        known = {(each.kind, each.name) for each in watched}
        wider = any((each.kind, each.name) not in known for each in composition.also_watch)
        late = (wider or composition.unsatisfied) and self._changed_since(request, requirements)
        self._interests.set_unsatisfied(key, composition.unsatisfied)
        problem = await self._write(owner, observed, composition)
        written = self._observed(self._informers[key.kind].get(key.name, key.namespace) or owner, clusters)
        if not problem and written != observed:
            # Report the written children now, not first that they are being created.
            after = await _composed(key.kind, replace(request, observed=written))
            if isinstance(after, Composition):
                composition, observed = after, written
        await self._reporter.composed(owner, observed, composition, problem)
        if problem:
            raise NotYet(problem)
        return 0.0 if late else composition.again_in_s

    async def _write(self, owner: Object, observed: Mapping[str, Object], composition: Composition) -> str:
        """Write a composition and record what it decided; return what could not be written."""
        problem = await self._writer.write(owner, observed, composition)
        if not problem:
            await self._reporter.decided(owner, observed, composition)
            for each in composition.wakes:
                self._wake(OwnerKey(each.kind, each.namespace, each.name))
        return problem

    def _loading(self, owner: Object, request: Request[Any]) -> bool:
        """Return True if requirements or Helm releases of an owner are being read for the first time."""
        found = request.required.values()
        loading = any(isinstance(each, Unknown) and each.loading for each in found)
        return loading or self._releases.loading(owner)

    def _changed_since(self, request: Request[Any], requirements: tuple[Requirement, ...]) -> bool:
        """Return True if a requirement has changed since it was read for a request."""
        return any(self._find(each) != request.required[each.key] for each in requirements)

    def compose(self, key: OwnerKey) -> Composed | None:
        """Compose an owner from the local copies, and write nothing; return None if it is gone."""
        owner = self._informers[key.kind].get(key.name, key.namespace)
        if owner is None:
            return None
        kind = COMPOSERS[key.kind]
        try:
            decoded = decode_as(kind.type, owner)
            requirements = self._requirements(kind, decoded)
            observed = self._observed(owner, _clusters(requirements))
            composition = kind.compose(self._request(decoded, observed, requirements))
        except InvalidObject as error:
            return Composed((), Blocked(str(error)))
        return Composed(requirements, composition)

    def _request(
        self, owner: Model, observed: Mapping[str, Object], requirements: tuple[Requirement, ...]
    ) -> Request[Any]:
        gateway, budgets, scaling = self._gateway_address(), self._budgets, self._autoscaling
        canaries = self._canaries
        registered = owner.metadata.name if isinstance(owner, InferenceCluster) else ""
        linked = owner.spec.cluster_name if isinstance(owner, ServingStack) else registered
        now = datetime.now(UTC)
        # Not before the first reconcile: a controller may wait long to become the leader.
        self._watching_since = self._watching_since or now
        return Request(
            owner,
            observed,
            {requirement.key: self._find(requirement) for requirement in requirements},
            gateway_address=gateway.address,
            gateway_problem=gateway.problem,
            gateway_tls_problem=gateway.tls_problem,
            gateway_without_module=gateway.without_module,
            gateway_asks_for_keys=gateway.asks_for_keys,
            key_problem=self._key_problem(owner) if isinstance(owner, ModelKey) else None,
            key_refused=self._key_refused(owner) if isinstance(owner, ModelKey) else frozenset(),
            key_budgets=budgets.state(owner) if budgets and isinstance(owner, ModelKey) else None,
            tier_budgets=budgets.tiers(owner) if budgets and isinstance(owner, ModelService) else None,
            endpoint_share=self._share_of(owner) if isinstance(owner, ModelService) else None,
            kubeconfig_problem=self._clusters.kubeconfig_problem(registered) if registered else "",
            credential=self._clusters.credential(registered) if registered else None,
            autoscaling=scaling.state(owner) if scaling and isinstance(owner, InferenceAutoscaler) else None,
            canary=canaries.state(owner) if canaries and isinstance(owner, ModelDeployment) else None,
            now=now,
            watching_since=self._watching_since,
            observes_capacity=True,
            gateway_is_local=self._gateway_is_local,
            gateway_answer=self._gateway_answer(registered) if registered else None,
            mutual_tls=self._links(linked) if linked else None,
            watched=self._watched(owner),
        )

    def _share_of(self, service: ModelService) -> EndpointShare | None:
        return self._share(OwnerKey(_SERVICE, service.metadata.namespace, service.metadata.name))

    def _requirements(self, kind: Composer, decoded: Model) -> tuple[Requirement, ...]:
        """Return what an owner requires, except its users: the finalizer looks for them on deletion."""
        return tuple(filterfalse(guards.matters_only_on_deletion, kind.required(decoded, self._find)))

    def _find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        if requirement.cluster:
            return self._clusters.find(requirement)
        informer = self._informers.get(requirement.kind)
        if informer is None:
            return self._named.find(requirement)
        if requirement.kind == _REPLICA and (cluster := requirement.labels.get(labels.CLUSTER)):
            return tuple(filter(requirement.matches, self._on_cluster.of(cluster)))
        if requirement.name:
            named = informer.get(requirement.name, requirement.namespace)
            return () if named is None else (named,)
        found = informer.in_namespace(requirement.namespace) if requirement.namespace else tuple(informer)
        is_narrow = requirement.labels or requirement.with_status
        return tuple(filter(requirement.matches, found)) if is_narrow else found

    def _observed(self, owner: Object, clusters: Collection[str]) -> dict[str, Object]:
        """Return the owner's children on the control plane, and on the clusters that it now looks at."""
        observed = self._children.keyed(owner["metadata"]["uid"])
        for connection in self._clusters.recorded(owner):
            if connection.name in clusters:
                observed |= adoption.keyed(owner, connection.children)
        return observed | self._releases.observed(owner)


def _clusters(requirements: tuple[Requirement, ...]) -> set[str]:
    return {requirement.cluster for requirement in requirements}


async def _composed(kind: str, request: Request[Any]) -> Composition | Blocked:
    """Compose an owner.

    A placement runs in a thread of its own: it can take seconds, and the lease must be renewed meanwhile.
    """
    if COMPOSERS[kind].lane is Lane.DECISIONS:
        return await asyncio.to_thread(_compose, kind, request)
    return _compose(kind, request)


def _compose(kind: str, request: Request[Any]) -> Composition | Blocked:
    """Compose, in a span; that of a deployment tells what its placement was found among, and came to."""
    places = COMPOSERS[kind].lane is Lane.DECISIONS
    with traces.span("placement" if places else "compose", kind=kind) as span:
        composition: Composition | Blocked
        try:
            composition = COMPOSERS[kind].compose(request)
        except InvalidObject as error:
            composition = Blocked(str(error))
        if places:
            placed = Composition(unsatisfied=True) if isinstance(composition, Blocked) else composition
            span.set(
                clusters=len(request.found("clusters")),
                replicas=len(request.found("replicas")),
                placed=placed.status.get("replicas", {}).get("total", 0),
                short=placed.unsatisfied,
            )
    return composition
