"""Turns of ModelCaches: a namespace fills few volumes of a cluster at a time.

A Job that fills a volume takes processors of the cluster, also while its source does not answer. So the
caches of one namespace must not take those of the others.
"""

from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import CachePhase, ModelCache
from modelplane.api.schema.untyped import get_list
from modelplane.compose.cache.cache_facts import CacheRequest
from modelplane.compose.composition import Requirement

AT_A_TIME = 2
"""Jobs of a namespace on one cluster."""

WAITING = f"waiting: a namespace stages {AT_A_TIME} ModelCaches on a cluster at a time, the oldest first"

_KEY = "caches"
_ENDED = (CachePhase.READY, CachePhase.FAILED)


def requirement(namespace: str) -> Requirement:
    """Return the caches of a namespace, which matter to one that waits for its turn."""
    return Requirement(_KEY, API_VERSION, kind_name(ModelCache), namespace, triggers=False)


def must_wait(request: CacheRequest, cluster: str) -> bool:
    """Return True if older caches of the namespace have their turn on a cluster."""
    metadata = request.owner.metadata
    created = metadata.creation_timestamp
    own = f"{created:%Y-%m-%dT%H:%M:%SZ}" if created else "", metadata.name
    ahead = [item for item in request.found(_KEY) if _age(item) < own and _is_staged_on(item, cluster)]
    return len(ahead) >= AT_A_TIME


def _age(cache: Object) -> tuple[str, str]:
    return str(cache["metadata"].get("creationTimestamp", "")), cache["metadata"]["name"]


def _is_staged_on(cache: Object, cluster: str) -> bool:
    """Return True if a cache is to be staged on a cluster, and is not yet."""
    if "deletionTimestamp" in cache["metadata"]:
        return False
    entries = get_list(cache, "status", "clusters")
    return any(entry.get("name") == cluster and entry.get("phase") not in _ENDED for entry in entries)
