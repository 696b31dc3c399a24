"""Replicas of a canary: how many there are, which are updated first, and their share of the requests.

While a canary runs, no more replicas have the new revision than its step needs: surge replicas where there
are any, else existing ones within the limits, and of those that are placed meanwhile no more than are
missing (`stable_replicas`). Once it is aborted, none is updated, and those of the new revision are withdrawn.
"""

from collections.abc import Collection, Mapping

import msgspec

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.fields.deployment.canary_settings import CanaryPhase
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.deployment.rollout.canary import Canary, has_revision
from modelplane.compose.deployment.rollout.rollout_order import (
    Limits,
    Rollout,
    is_draining,
    is_updating,
    serves,
)
from modelplane.compose.deployment.wanted_replicas import Wanted


def limited(limits: Limits, state: Canary | None, observed: Mapping[str, Object], wanted: Wanted) -> int:
    """Return the most surge replicas while a canary limits them.

    ``wanted`` has the replicas that the deployment asks for.
    """
    if state is None or state.status.phase is CanaryPhase.PROMOTED:
        return limits.surge
    if not state.is_running or state.unsupported:
        return 0
    new = sum(_is_new(key, state, observed, wanted) for key in wanted)
    return min(limits.surge, max(0, state.status.replicas - new))


def _is_new(key: str, state: Canary, observed: Mapping[str, Object], wanted: Wanted) -> bool:
    """Return True if a replica has the revision of a canary, or is placed with it."""
    if key in observed:
        return has_revision(observed[key], state.status.revision)
    return wanted[key].metadata.labels.get(labels.REVISION) == state.status.revision


def narrowed(
    rollout: Rollout,
    state: Canary | None,
    observed: Mapping[str, Object],
    wanted: Wanted,
    held: Collection[str] = (),
) -> Rollout:
    """Return a rollout that updates no more replicas than a canary needs.

    ``wanted`` has the replicas that are to exist. Those of cut-short canaries come first, and then those that
    do not serve. None in ``held`` is updated.
    """
    if state is None or state.status.phase is CanaryPhase.PROMOTED:
        return rollout
    new = {key for key in wanted if _is_new(key, state, observed, wanted)}
    older = [key for key in wanted if key in observed and key not in new]
    room = max(0, state.status.replicas - len(new)) if state.is_running and not state.unsupported else 0
    may = sorted(
        set(older) - rollout.waiting - set(held), key=lambda key: (_is_stable(observed[key], state), key)
    )
    chosen = may[:room]
    # A withdrawn replica is written again, so that it stays withdrawn.
    waiting = rollout.waiting - new if state.is_withdrawn else rollout.waiting
    return Rollout(rollout.updated, waiting | frozenset(older) - frozenset(chosen))


def _is_stable(replica: Object, state: Canary) -> tuple[bool, bool]:
    return has_revision(replica, state.status.stable_revision), serves(replica)


def first(state: Canary | None, observed: Mapping[str, Object]) -> frozenset[str]:
    """Return the keys of the replicas that a rollout reaches first: those of canaries that were cut short."""
    if state is None:
        return frozenset()
    known = (state.status.revision, state.status.stable_revision)
    return frozenset(
        key for key, each in observed.items() if not any(has_revision(each, name) for name in known)
    )


def without_requests(
    fleet: scheduler.Fleet,
    deployment: scheduler.Deployment,
    state: Canary | None,
    observed: Mapping[str, Object],
) -> scheduler.Fleet:
    """Return a fleet in which the replicas of an aborted canary are withdrawn: no other leaves for them."""
    if state is None or not state.is_withdrawn:
        return fleet
    names = {
        item["metadata"]["name"] for item in observed.values() if has_revision(item, state.status.revision)
    }
    replicas = (
        msgspec.structs.replace(replica, draining=True)
        if replica.deployment_uid == deployment.uid and replica.name in names
        else replica
        for replica in fleet.replicas
    )
    return msgspec.structs.replace(fleet, replicas=tuple(replicas))


def marked(wanted: Wanted, state: Canary | None, observed: Mapping[str, Object]) -> Wanted:
    """Return the replicas that are to exist, with the share of requests that those of the canary get."""
    share = "" if state is None else str(state.status.weight) if state.is_running else ""
    share = labels.WITHDRAWN if state is not None and state.is_withdrawn else share
    return {
        key: _marked(replica, labels.WITHDRAWN if _is_returning(observed.get(key)) else share)
        if (share and not _is_stable_and_new(key, state, observed, wanted))
        or _share(observed.get(key)) is not None
        else replica
        for key, replica in wanted.items()
    }


def _is_stable_and_new(
    key: str, state: Canary | None, observed: Mapping[str, Object], wanted: Wanted
) -> bool:
    return state is not None and key not in observed and not _is_new(key, state, observed, wanted)


def is_withdrawn(replica: ModelReplica, state: Canary | None) -> bool:
    """Return True if a replica that is to be written gets no requests because its canary was aborted."""
    has = state is not None and replica.metadata.labels.get(labels.REVISION) == state.status.revision
    return has and state is not None and state.is_withdrawn


def _is_returning(replica: Object | None) -> bool:
    """Return True if the pods of a withdrawn replica do not have its next template yet."""
    if replica is None or _share(replica) != labels.WITHDRAWN:
        return False
    return is_updating(replica) or not serves(replica)


def _marked(replica: ModelReplica, share: str) -> ModelReplica:
    # Written as empty too, because an annotation that is left out stays.
    annotations = {**replica.metadata.annotations, labels.CANARY_WEIGHT: share}
    metadata = msgspec.structs.replace(replica.metadata, annotations=annotations)
    return msgspec.structs.replace(replica, metadata=metadata)


def _share(replica: Object | None) -> str | None:
    annotations = (replica or {}).get("metadata", {}).get("annotations") or {}
    said = annotations.get(labels.CANARY_WEIGHT)
    return None if said is None else str(said)


def is_aborted(replica: Object) -> bool:
    """Return True if a replica was withdrawn because its canary was aborted."""
    return is_draining(replica) and _share(replica) == labels.WITHDRAWN
