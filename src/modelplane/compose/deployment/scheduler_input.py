"""API objects, translated to the types of the scheduler: what is ready, what is stuck, what holds devices.

Decided here: whether a cluster is ready, and why not; that a replica of another deployment of which no engine
can be written holds no devices (``drop_devices``); and how soon a node must be gone for its replica to be
withdrawn (``WITHDRAWN_WITHIN``). Times are compared as texts that sort by time.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api import labels, money
from modelplane.api.conditions.reasons import (
    InferenceClusterCondition,
    InferenceClusterReason,
    ModelReplicaCondition as Type,
    ModelReplicaReason as Reason,
)
from modelplane.api.fields.cluster.devices import Device, DeviceAttribute
from modelplane.api.fields.cluster.drain_settings import Cordon
from modelplane.api.fields.deployment.placement_settings import PlacementSettings
from modelplane.api.fields.pods.engines import ServingBackend
from modelplane.api.inference_cluster import Capabilities, GPUPool, InferenceCluster
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import Engine, Member, ModelDeployment, ReplicaTemplate
from modelplane.api.model_replica import ModelReplica, PlacedMember
from modelplane.api.schema.decode import InvalidObject, convert, decode_as
from modelplane.compose.cluster import capacity_status
from modelplane.compose.cluster.reachability import find_reported_error, list_unreachable
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.deployment.replica_state import is_surge, is_updating
from modelplane.compose.memo import per_version
from modelplane.compose.readiness import condition_of, holds
from modelplane.compose.replica import pod_key_policy

_STARTS_WITHIN: Final = timedelta(minutes=30)
"""Time within which a replica that ever becomes ready does: a cold start with a download."""

WITHDRAWN_WITHIN: Final = timedelta(seconds=60)
"""Time before a node is gone at which its replica is withdrawn: requests in progress end in it."""

_ALWAYS: Final = "0"
_NEVER: Final = "1"
"""A text that sorts before every time, and after ``_ALWAYS``."""


@per_version
def read_cluster(found: Mapping[str, Any]) -> scheduler.Cluster:
    """Return an InferenceCluster with the pools and capabilities that it publishes in its status.

    An unreadable one is not ready: it gets no new replicas, and keeps the ones it has.
    """
    try:
        source = decode_as(InferenceCluster, found)
    except InvalidObject as error:
        return scheduler.Cluster(found["metadata"]["name"], region=None, ready=False, not_ready=str(error))
    return read_decoded_cluster(source)


def read_decoded_cluster(source: InferenceCluster) -> scheduler.Cluster:
    """Return an InferenceCluster in the scheduler's types."""
    status, why = source.status, _not_ready(source)
    classes = {node_pool.name: node_pool.class_name for node_pool in source.spec.node_pools}
    cordons = {tainted.pool: source.cordon(tainted.pool) for tainted in source.spec.pool_taints}
    return scheduler.Cluster(
        name=source.metadata.name,
        labels=dict(source.metadata.labels),
        region=source.find_region(),
        ready=not why,
        not_ready=why,
        gateway_address=status.gateway.address if status.gateway else "",
        pools=tuple(
            read_pool(node_pool, cordons.get(node_pool.name, Cordon.NONE), classes.get(node_pool.name, ""))
            for node_pool in status.gpu_pools
        ),
        taints=tuple(scheduler.Taint(taint.key, taint.value, taint.effect) for taint in source.spec.taints),
        capabilities=_capabilities(status.capabilities, source.spec.serving_stack.backend),
        cache_storage=(status.cache.storage_class_name or "") if status.cache else "",
        pod_keys=pod_key_policy.key_rules(source.spec),
        cordon=source.cordon(),
        max_moving=source.spec.drain.max_moving,
        max_moving_in_fleet=source.spec.drain.max_moving_in_fleet,
    )


def read_clusters(
    found: Iterable[Mapping[str, Any]], replicas: Iterable[scheduler.Replica]
) -> tuple[scheduler.Cluster, ...]:
    """Return the InferenceClusters; one that a replica just failed to reach is not ready either."""
    # The last of the causes in sorted order, so that the text does not depend on the order of the replicas.
    silent = dict(sorted((peer.cluster, peer.unreachable) for peer in replicas if peer.unreachable))
    return tuple(
        replace(site, ready=False, not_ready=silent[site.name])
        if site.ready and site.name in silent
        else site
        for site in map(read_cluster, found)
    )


def find_unreachable(
    found: Iterable[Mapping[str, Any]], replicas: Iterable[Mapping[str, Any]], names: Collection[str]
) -> dict[str, str]:
    """Return the named InferenceClusters that do not answer, each with the cause.

    ``replicas`` can show it before the InferenceCluster does.
    """
    silent = {name: silence.cause for name, silence in list_unreachable(replicas).items() if name in names}
    conditions = {
        item["metadata"]["name"]: condition_of(item, InferenceClusterCondition.CLUSTER_READY)
        for item in found
        if item["metadata"]["name"] in names
    }
    return silent | {
        name: str(condition.get("message", ""))
        for name, condition in conditions.items()
        if condition.get("reason") == InferenceClusterReason.UNREACHABLE
    }


def _not_ready(source: InferenceCluster) -> str:
    if source.metadata.deletion_timestamp:
        return "being deleted"
    ready = next((condition for condition in source.status.conditions if condition.type == READY), None)
    if ready is not None and ready.status == "True":
        return ""
    if ready is not None and ready.message:
        return ready.message
    # Crossplane writes its Ready condition without a message.
    causes = (
        stated.message
        for type_ in (InferenceClusterCondition.CLUSTER_READY, InferenceClusterCondition.BACKEND_READY)
        for stated in source.status.conditions
        if stated.type == type_ and stated.status == "False"
    )
    return next(filter(None, causes), "not ready yet")


@lru_cache(maxsize=64)
def _capabilities(found: Capabilities | None, backend: ServingBackend) -> scheduler.Capabilities:
    known = msgspec.structs.asdict(found) if found else {}
    return scheduler.Capabilities(**known, needs_llm_inference_service=backend is ServingBackend.KSERVE)


def read_pool(source: GPUPool, cordon: Cordon = Cordon.NONE, class_name: str = "") -> scheduler.Pool:
    """Return a published pool."""
    until, usable = source.blocked_until, source.usable
    return scheduler.Pool(
        source.name,
        max(source.nodes, 0),
        _devices(msgspec.json.encode(source.devices)),
        source.accounting,
        source.fabric or "",
        *_prices(source),
        cordon,
        None
        if usable is None
        else scheduler.Usable(
            usable.nodes, capacity_status.vectors(source, usable), capacity_status.why(source, usable)
        ),
        class_name,
        source.spot,
        "" if until is None else f"the pool's nodes are being reclaimed; blocked until {until:%H:%M:%SZ}",
    )


def _prices(pool: GPUPool) -> tuple[str, tuple[int, ...]]:
    if (pricing := pool.pricing) is None:
        return "", ()
    return pricing.currency, tuple(
        pricing.find_price_per_hour(device.name, spot=pool.spot) or 0 for device in pool.devices
    )


@lru_cache(maxsize=4096)
def _devices(encoded: bytes) -> tuple[scheduler.Device, ...]:
    """Return the same devices for the same content: the pools of one class share them."""
    return tuple(map(read_device, convert(msgspec.json.decode(encoded), tuple[Device, ...])))


def read_device(source: Device) -> scheduler.Device:
    """Return a device of a class or of a pool."""
    return scheduler.Device(
        name=source.name,
        driver=source.driver,
        count=max(source.count, 0),
        claim=source.claim,
        device_class_name=source.device_class_name or "",
        attributes={name: _attribute(value) for name, value in source.attributes.items()},
        capacity={name: capacity.value for name, capacity in source.capacity.items()},
    )


def _attribute(value: DeviceAttribute) -> scheduler.AttributeValue:
    if value.version is not None:
        return scheduler.Version(value.version)
    return next((found for found in (value.boolean, value.integer, value.string) if found is not None), "")


def read_replica(found: Mapping[str, Any]) -> scheduler.Replica:
    """Return an existing ModelReplica with the capacity that it holds.

    Raises ``InvalidObject``, because free capacity is unknown if held capacity is.
    """
    return _replica(found)[0]


@per_version
def _replica(found: Mapping[str, Any]) -> tuple[scheduler.Replica, str]:
    """Return a replica, and the time before which one that is stuck holds nothing."""
    return _decoded(found), _unwritten_since(found)


def _unwritten_since(found: Mapping[str, Any]) -> str:
    """Return the time before which a replica must be stuck to hold nothing; empty if it holds its devices.

    It holds nothing if it is known that no engine of it is on its cluster, and that none can be written
    there: the namespace is not for it and nobody may ever label it, or each attempt has failed for as long as
    any start takes.
    """
    accepted, ready = condition_of(found, Type.MODEL_ACCEPTED), condition_of(found, Type.MODEL_READY)
    if ready.get("reason") != Reason.WAITING_FOR_MODEL or ready.get("status") != "False":
        return ""
    if accepted.get("reason") in {Reason.NAMESPACE_NOT_LABELED, Reason.NAMESPACE_TERMINATING}:
        return _ALWAYS
    is_failing = condition_of(found, SYNCED).get("status") == "False"
    is_refused = is_failing and accepted.get("reason") == Reason.DEPLOYING
    return str(found["metadata"].get("creationTimestamp", "")) if is_refused else ""


def _decoded(found: Mapping[str, Any]) -> scheduler.Replica:
    source = decode_as(ModelReplica, found)
    owner = next((owner for owner in source.metadata.owner_references if owner.controller), None)
    ready = any(
        condition.type == READY and condition.status == "True" for condition in source.status.conditions
    )
    evicted = source.status.eviction
    index = source.metadata.labels.get(labels.REPLICA_INDEX, "")
    return scheduler.Replica(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        uid=source.metadata.uid,
        deployment_uid=owner.uid if owner else "",
        deployment_name=source.metadata.labels.get(labels.DEPLOYMENT, ""),
        cluster=source.spec.cluster_name,
        index=int(index) if index.isdecimal() else 0,
        engines=tuple(
            scheduler.PlacedEngine(engine.name, engine.copies, tuple(map(_build_member, engine.members)))
            for engine in source.spec.engines
        ),
        ready=ready,
        unreachable=f"unreachable: {silence.cause}" if (silence := find_reported_error(found)) else "",
        deleting=bool(source.metadata.deletion_timestamp),
        draining=bool(source.spec.draining),
        surge=is_surge(found),
        updating=ready and (is_updating(found) or not holds(found, READY)),
        evicted=f'node "{evicted.node}" is being reclaimed: {evicted.cause}' if evicted else "",
        evicted_at=_time(evicted.deadline) if evicted else "",
        created=_time(source.metadata.creation_timestamp),
        deleted=_time(source.metadata.deletion_timestamp),
    )


def drop_devices(found: Mapping[str, Any], before: str) -> scheduler.Replica:
    """Return a replica of another deployment: one that cannot be written takes no devices from others.

    ``before``: see ``stuck_before``. Raises ``InvalidObject``.
    """
    known, since = _replica(found)
    return replace(known, engines=()) if since and since < (before or _NEVER) else known


def _time(at: datetime | None) -> str:
    """Return a time as text that sorts by time; empty for none."""
    return at.isoformat() if at else ""


def stuck_before(now: datetime | None) -> str:
    """Return the creation time before which a replica that is not ready is stuck; empty without a clock."""
    return (now - _STARTS_WITHIN).isoformat() if now else ""


def evicted_before(now: datetime | None) -> str:
    """Return the time before which a node is gone so soon that its replica is withdrawn; empty if unknown."""
    return (now + WITHDRAWN_WITHIN).isoformat() if now else ""


def _build_member(member: PlacedMember) -> scheduler.PlacedMember:
    claims = tuple(
        scheduler.ResolvedRequest(
            request.name,
            request.device_class_name,
            request.count,
            tuple(selector.cel for selector in request.selectors),
        )
        for request in member.device_requests
    )
    return scheduler.PlacedMember(member.role, member.node_pool_name, member.pods, claims)


def read_footprint(found: Iterable[Mapping[str, Any]]) -> scheduler.CacheFootprint:
    """Return the clusters that a deployment's ModelCache covers; unknown if it was not found.

    Raises ``InvalidObject``.
    """
    for cache in found:
        spec = decode_as(ModelCache, cache).spec
        selector = spec.cluster_selector
        return scheduler.CacheFootprint(True, dict(selector.match_labels) if selector else {}, spec.regions)
    return scheduler.CacheFootprint(False)


def read_deployment(source: ModelDeployment, cache: scheduler.CacheFootprint | None) -> scheduler.Deployment:
    """Return a deployment in the scheduler's types, from either of its published shapes."""
    template = source.replica_template()
    placement = source.spec.placement or PlacementSettings()
    most = placement.max_cost_per_hour
    return scheduler.Deployment(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        uid=source.metadata.uid,
        replicas=source.spec.replicas,
        engines=_engines(template.engines),
        cluster_selector=dict(template.cluster_selector),
        cache=cache,
        tolerations=tuple(
            scheduler.Toleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
            for toleration in template.tolerations
        ),
        regions=template.regions,
        pod_parts=pod_key_policy.parts(template.engines),
        picks=template.serving_settings.picks,
        policy=placement.policy,
        most_per_hour=None if most is None else money.parse_amount(most),
        currency=placement.currency or "",
        created=_time(source.metadata.creation_timestamp),
        spot=None
        if placement.spot is None
        else scheduler.Spot(placement.spot.base_on_demand, placement.spot.fallback),
    )


def read_template(source: ReplicaTemplate, cache: scheduler.CacheFootprint | None) -> scheduler.Template:
    """Return what a template of a deployment asks for."""
    parts = pod_key_policy.parts(source.engines)
    return scheduler.Template(_engines(source.engines), cache, source.serving_settings.picks, parts)


def has_same_needs(one: ReplicaTemplate, other: ReplicaTemplate) -> bool:
    """Return True if replicas of two templates have the same places, beside their caches."""
    return _needs(one) == _needs(other)


def _needs(template: ReplicaTemplate) -> tuple[object, ...]:
    engines = template.engines
    return template.serving_settings.picks, _engines(engines), pod_key_policy.parts(engines)


def _engines(engines: Iterable[Engine]) -> tuple[scheduler.Engine, ...]:
    return tuple(
        scheduler.Engine(
            name=engine.name,
            copies=engine.copies,
            members=tuple(_member(member) for member in engine.members),
            phase=scheduler.Phase(engine.phase or ""),
        )
        for engine in engines
    )


def _member(member: Member) -> scheduler.Member:
    requests = tuple(
        scheduler.DeviceRequest(
            device.name, device.count, tuple(selector.cel for selector in device.selectors)
        )
        for device in (member.node_selector.devices if member.node_selector else ())
    )
    return scheduler.Member(member.role, member.pods, requests)
