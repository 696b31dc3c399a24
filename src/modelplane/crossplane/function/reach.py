"""Reachability of a cluster, from the errors that provider-kubernetes reports on an owner's Objects."""

from collections.abc import Mapping

from modelplane.api.meta import Object
from modelplane.compose.cluster.reachability import connection_error
from modelplane.compose.composition import Silence
from modelplane.compose.conditions import SYNCED
from modelplane.compose.readiness import condition_of
from modelplane.crossplane.function import remote


def silence(composed: Mapping[str, Object]) -> Silence | None:
    """Return the earliest connection error among an owner's Objects; None if there is none."""
    found = [
        Silence(cause, str(condition_of(item, SYNCED).get("lastTransitionTime", "")))
        for item in composed.values()
        if remote.is_remote(item) and (cause := connection_error(remote.problem(item) or ""))
    ]
    return min(found, key=lambda each: (each.since, each.cause), default=None)
