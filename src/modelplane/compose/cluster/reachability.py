"""Reachability of a cluster's API server.

Under Crossplane the only sign is the error that provider-kubernetes reports of an Object, which is a text of
Go's network and HTTP packages. One rule: an error that the API server itself returns is an answer, even if
the server failed to reach something else, such as a webhook.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from modelplane.api.conditions.reasons import ModelReplicaCondition, ModelReplicaReason, SyncedReason
from modelplane.compose.composition import Silence
from modelplane.compose.conditions import SYNCED
from modelplane.compose.readiness import condition_of

_REQUEST = re.compile(
    r'\b(?:Get|Head|Post|Put|Patch|Delete) "(?P<server>https?://[^/"?]+)[^"]*": (?P<error>[^\n]+)'
)
"""A request that failed, as ``net/url.Error`` writes it."""

_DIAL = re.compile(r"\bdial (?:tcp|udp)\b[^\n]*")

_ANSWERS = (
    "Internal error occurred",
    "failed calling webhook",
    "conversion webhook",
    "stream error",
    "sent GOAWAY",
    "context canceled",
)
"""Texts of errors from the server, which then answers, and of requests that the client canceled."""

_CHANGING = re.compile(r"\S+:\d+->|current time \S+ ")
"""Parts of an error that differ each time: the client's own port, the time of a certificate's check."""

_LONGEST_MESSAGE = 256

_UNREACHABLE = " is unreachable: "


def connection_error(text: str) -> str | None:
    """Return the connection error in an error message; None if there is none.

    The same failure gives the same text, whichever request met it.
    """
    if any(answer in text for answer in _ANSWERS):
        return None
    if request := _REQUEST.search(text):
        error = _CHANGING.sub("", request["error"])
        host = request["server"].partition("://")[2]
        return (error if host in error else f"{request['server']}: {error}")[:_LONGEST_MESSAGE]
    dialed = _DIAL.search(text)
    return _CHANGING.sub("", dialed[0])[:_LONGEST_MESSAGE] if dialed else None


def report(cluster: str, silence: Silence) -> str:
    """Return the message for objects on a cluster that does not answer."""
    return f'cluster "{cluster}"{_UNREACHABLE}{silence.cause}'


def list_unreachable(replicas: Iterable[Mapping[str, Any]]) -> dict[str, Silence]:
    """Return the clusters that do not answer, as ModelReplicas report of their own objects there."""
    found: dict[str, Silence] = {}
    for replica in replicas:
        if silence := find_reported_error(replica):
            cluster = str(replica["spec"]["clusterName"])
            found[cluster] = min(
                found.get(cluster, silence), silence, key=lambda candidate: (candidate.since, candidate.cause)
            )
    return found


def find_reported_error(replica: Mapping[str, Any]) -> Silence | None:
    """Return the connection error that a ModelReplica reports; None if its cluster answers."""
    accepted = condition_of(replica, ModelReplicaCondition.MODEL_ACCEPTED)
    if accepted.get("reason") != ModelReplicaReason.CLUSTER_UNREACHABLE:
        return None
    # A replica that is leaving or paused is no longer composed: its report may be old.
    if "deletionTimestamp" in replica["metadata"] or replica["spec"].get("draining"):
        return None
    if condition_of(replica, SYNCED).get("reason") == SyncedReason.RECONCILE_PAUSED:
        return None
    cause = str(accepted["message"]).partition(_UNREACHABLE)[2]
    return Silence(cause, str(accepted.get("lastTransitionTime", "")))
