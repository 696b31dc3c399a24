"""Cordons of an InferenceCluster as ``modelplane cluster`` writes them, with a field manager of its own.

An apply by others that does not name these taints leaves them, and this one leaves the taints of others.
"""

import json
from collections.abc import Iterator
from typing import Final

from modelplane.api.conditions.reasons import InferenceClusterCondition
from modelplane.api.fields.cluster.drain_settings import CORDONS, Cordon, TaintEffect
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Object
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.readiness import condition_of

MANAGER: Final = "modelplane-drain"
"""The field manager."""

Taint = tuple[str, str]
"""The pool, empty for the whole cluster, and the key."""

_KEYS: Final = {cordon: key for key, cordon in CORDONS.items()}


def build_manifest(cluster: Object, pool: str, cordon: Cordon) -> Object:
    """Return what to apply, so that the cluster or the pool has this cordon, and all others stay."""
    declared = {taint for manager, taint in list_owners(cluster) if manager == MANAGER and taint[0] != pool}
    if cordon:
        declared.add((pool, _KEYS[cordon]))
    kind = kind_of(InferenceCluster)
    effect = str(TaintEffect.NO_SCHEDULE)
    lists = {
        "taints": [{"key": key, "effect": effect} for place, key in sorted(declared) if not place],
        "poolTaints": [{"pool": place, "key": key} for place, key in sorted(declared) if place],
    }
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        # With the uid, so that a cluster that is deleted meanwhile is not created again.
        "metadata": {name: cluster["metadata"][name] for name in ("name", "uid")},
        "spec": {field: items for field, items in lists.items() if items},
    }


def find_others(cluster: Object, pool: str, cordon: Cordon) -> dict[str, list[str]]:
    """Return the taints that the cluster or pool still has beyond a cordon, with those that declare them."""
    spec = cluster["spec"]
    if pool:
        keys = [taint["key"] for taint in spec.get("poolTaints", ()) if taint["pool"] == pool]
    else:
        keys = [taint["key"] for taint in spec.get("taints", ()) if taint["key"] in CORDONS]
    return {
        key: sorted({manager for manager, taint in list_owners(cluster) if taint == (pool, key)})
        for key in keys
        if CORDONS[key] is not cordon
    }


def describe_closed(cluster: Object) -> list[str]:
    """Return what is closed of a cluster, as sentences; nothing of one that cannot be read."""
    try:
        decoded = decode_as(InferenceCluster, cluster)
    except InvalidObject:
        return []
    where = f"cluster {decoded.metadata.name}"
    pools = sorted({taint.pool for taint in decoded.spec.pool_taints})
    places = {where: decoded.cordon()} | {f"pool {pool} of {where}": decoded.cordon(pool) for pool in pools}
    message = condition_of(cluster, InferenceClusterCondition.DRAINED).get("message", "")
    progress = {Cordon.DRAINING: f": {message}" if message else ""}
    return [f"{place} is {cordon}{progress.get(cordon, '')}" for place, cordon in places.items() if cordon]


def list_owners(cluster: Object) -> Iterator[tuple[str, Taint]]:
    """Yield the field managers of the reserved taints of a cluster, each with one taint."""
    for entry in cluster["metadata"].get("managedFields", ()):
        spec = entry.get("fieldsV1", {}).get("f:spec", {})
        for field in ("f:taints", "f:poolTaints"):
            # Items of a list are named by their keys, as k:{...}.
            for name in (name for name in spec.get(field, {}) if name.startswith("k:")):
                keys = json.loads(name.removeprefix("k:"))
                if keys.get("key") in CORDONS:
                    yield entry.get("manager", ""), (keys.get("pool", ""), keys["key"])
