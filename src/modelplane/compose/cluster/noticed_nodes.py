"""Notices of eviction of an InferenceCluster's nodes, and the spot pools that are blocked after them.

Nodes are watched where a pool is spot, or capacity is observed. While they cannot be read, what is known
stays. A spot pool gets no new replica from the first notice on, and for ``BLOCKED`` after a node with a
notice is gone.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from modelplane.api.conditions.reasons import (
    InferenceClusterCondition as Type,
    InferenceClusterReason as Reason,
)
from modelplane.api.fields.cluster.node_pools import MAX_NOTICES, EvictionNotice
from modelplane.api.fields.cluster.usable_capacity import CapacitySource
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import count_noun, in_order
from modelplane.compose.cluster.capacity_facts import facts_of
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.cluster.live_capacity import NODES, UNREADABLE, Report
from modelplane.compose.composition import Requirement
from modelplane.compose.conditions import Condition, false, true

BLOCKED: Final = dt.timedelta(minutes=15)
"""Time for which a spot pool that lost a node gets no new replica."""

_SHOWN: Final = 4


def requirements(cluster: InferenceCluster) -> tuple[Requirement, ...]:
    """Return the nodes of a cluster with spot pools; nothing if they are required for capacity already."""
    if cluster.spec.capacity_source is CapacitySource.OBSERVED or not _has_spot(cluster):
        return ()
    return (Requirement(NODES, "v1", "Node", cluster=cluster.metadata.name),)


def report(request: ClusterRequest, pools: Sequence[Mapping[str, Any]]) -> Report:
    """Return published pools with the time until which they are blocked, notices, and the condition."""
    cluster, known = request.owner, request.owner.status
    watches = _has_spot(cluster) or cluster.spec.capacity_source is CapacitySource.OBSERVED
    now = request.now and request.now.replace(microsecond=0)
    if not watches or now is None or not request.facts.observes_capacity:
        return Report([*pools], _unwatched(request, watches=watches))
    unknown = request.unknown(NODES)
    notices = known.eviction_notices if unknown else _notices(request, now)
    ends = {
        node_pool.name: node_pool.blocked_until for node_pool in known.gpu_pools if node_pool.blocked_until
    }
    blocked = {
        node_pool.name: until
        for node_pool in cluster.spec.node_pools
        if node_pool.spot
        and (until := _until(request, node_pool.name, notices, ends.get(node_pool.name), now)) > now
    }
    published = [
        {**pool, **({"blockedUntil": _text(blocked[pool["name"]])} if pool.get("name") in blocked else {})}
        for pool in pools
    ]
    due = min(blocked.values(), default=None)
    again = None if due is None else max((due - now).total_seconds(), 1.0)
    said: tuple[Condition, ...] = ()
    if unknown:
        cause = f"cannot list Nodes of the cluster{UNREADABLE}: {unknown.cause}"
        said = (false(Type.NODES_KEPT, Reason.NODES_UNKNOWN, cause),)
    elif notices or blocked:
        said = (false(Type.NODES_KEPT, Reason.NODES_EVICTED, _message(notices, blocked)),)
    elif _has_spot(cluster) or _was_said(request):
        said = (true(Type.NODES_KEPT, Reason.NO_NOTICES, "no node has an eviction notice"),)
    status = {"evictionNotices": msgspec.to_builtins(notices)} if notices else {}
    return Report(published, said, again, status)


def _has_spot(cluster: InferenceCluster) -> bool:
    return any(pool.spot for pool in cluster.spec.node_pools)


def _was_said(request: ClusterRequest) -> bool:
    return any(condition.type == Type.NODES_KEPT for condition in request.owner.status.conditions)


def _unwatched(request: ClusterRequest, *, watches: bool) -> tuple[Condition, ...]:
    if watches and _has_spot(request.owner):
        message = (
            "only Modelplane's controllers watch nodes: replicas remain on a node until the cloud reclaims "
            "it, and spot pools are never blocked"
        )
        return (false(Type.NODES_KEPT, Reason.NODES_NOT_OBSERVED, message),)
    # Crossplane keeps a condition that is not composed any more.
    ended = true(Type.NODES_KEPT, Reason.NO_NOTICES, "there are no spot pools, so nodes are not watched")
    return (ended,) if _was_said(request) else ()


def _notices(request: ClusterRequest, now: dt.datetime) -> tuple[EvictionNotice, ...]:
    before = {notice.node: notice for notice in request.owner.status.eviction_notices}
    spot = {pool.name: pool.spot for pool in request.owner.spec.node_pools}
    found = []
    for node in facts_of(request.found(NODES)):
        if node.notice is None or node.pool not in spot:
            continue
        noticed = before[node.name].noticed_at if node.name in before else now
        left = node.notice.spot_s if spot[node.pool] else node.notice.others_s
        found.append(
            EvictionNotice(
                node=node.name,
                pool=node.pool,
                cause=node.notice.cause,
                noticed_at=noticed,
                deadline=_time(node.notice.deadline) or noticed + dt.timedelta(seconds=left),
            )
        )
    return tuple(sorted(found, key=lambda notice: (notice.deadline, notice.node))[:MAX_NOTICES])


def _time(text: str) -> dt.datetime | None:
    """Return the time that an annotation has; None if it has none, or none with a zone."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.astimezone(dt.UTC).replace(microsecond=0) if time.tzinfo else None


def _until(
    request: ClusterRequest,
    pool: str,
    notices: Sequence[EvictionNotice],
    known: dt.datetime | None,
    now: dt.datetime,
) -> dt.datetime:
    """Return the time until which a spot pool is blocked; one that is past if it is not."""
    ends = [known or now, *(notice.noticed_at + BLOCKED for notice in notices if notice.pool == pool)]
    if not request.unknown(NODES):
        there = {node.name for node in facts_of(request.found(NODES))}
        before = request.owner.status.eviction_notices
        ends += [now + BLOCKED for notice in before if notice.pool == pool and notice.node not in there]
    return max(ends)


def _message(notices: Sequence[EvictionNotice], blocked: Mapping[str, dt.datetime]) -> str:
    parts = []
    if notices:
        told = [f'"{notice.node}" by {_text(notice.deadline)} ({notice.cause})' for notice in notices]
        verb = "is" if len(notices) == 1 else "are"
        parts.append(f"{count_noun(len(notices), 'node')} {verb} being reclaimed: {in_order(told, _SHOWN)}")
    parts += [
        f'pool "{name}" receives no new replicas until {_text(until)}'
        for name, until in sorted(blocked.items())
    ]
    return "; ".join(parts)


def _text(time: dt.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
