"""Surge: replicas that a rollout places in addition to those that the deployment asks for."""

from collections.abc import Container, Iterable, Sequence

from modelplane.scheduler.existing.retention import Kept
from modelplane.scheduler.placement.fill import New
from modelplane.scheduler.types import Replica, Surge


def count_surge(surge: Surge, most: int, base: Sequence[Kept], new: int, standing: int) -> int:
    """Return how many replicas there are to be in addition, and at most so many.

    `base` are those that stay without them, beside `new` ones; `standing` exist. New ones are placed only
    for an edit. Those that exist stay until every replica has it and serves.
    """
    unfinished = sum(kept.is_stale or not kept.replica.serves for kept in base) + new
    if not unfinished:
        return 0
    begun = unfinished if any(kept.is_stale for kept in base) and not surge.paused else 0
    return min(most, max(begun, standing))


def may_stand_in(ours: Iterable[Replica], base: Sequence[Kept], first: Container[str]) -> bool:
    """Return True if a surge replica that serves would go before a replica that does not."""
    names = {kept.replica.name for kept in base}
    return not all(kept.replica.serves for kept in base) and any(
        replica.surge and replica.serves and replica.name not in names and replica.name not in first
        for replica in ours
    )


def find_added(
    staying: Sequence[Kept], base: Sequence[Kept], placed: Sequence[tuple[New, int]], count: int
) -> frozenset[tuple[str, int]]:
    """Return the cluster and index of the replicas in addition, of which there are to be so many.

    They are those that stay beside the `base`, and were in addition before if possible, and new ones.
    """
    names = {kept.replica.name for kept in base}
    there = [kept.replica for kept in staying if kept.replica.name not in names]
    there.sort(key=lambda replica: (not replica.surge, replica.cluster, replica.index))
    keys = [(replica.cluster, replica.index) for replica in there]
    keys += [(new.cluster, new.index) for new, _ in placed]
    return frozenset(keys[: max(0, count)])
