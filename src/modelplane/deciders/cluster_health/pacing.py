"""Pacing: how many clusters and replicas are replaced at a time, over the whole fleet.

It delays and never stops: a larger loss is replaced in waves. Namespaces take turns, so that many deployments
of one delay the others' by no more than one of them does.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from modelplane.deciders.cluster_health.evidence import State
from modelplane.deciders.cluster_health.standing import Standing

PER_MINUTE: Final = 10
"""Replicas that may begin to be replaced within a minute."""

SHARE: Final = 10
"""One cluster in so many may be replaced at a time, and one in any case."""

_LARGEST: Final = 5 * PER_MINUTE
"""Replicas that a move counts for at most: a larger deployment delays others by five minutes."""

_STUCK_S: Final = 600.0
"""Time after which a cluster with replicas that find no place makes room for the next one."""

Key: TypeAlias = tuple[str, str]
"""A cluster and a deployment."""


class Move(msgspec.Struct, frozen=True):
    """Replicas of one deployment on one cluster, to be replaced if that is lost for `after_s`.

    `replaced` is true once enough replicas serve elsewhere. `namespace` is that of the deployment.
    """

    cluster: str
    deployment: str
    after_s: float
    replicas: int
    replaced: bool = False
    namespace: str = ""

    @property
    def key(self) -> Key:
        """The cluster and the deployment."""
        return self.cluster, self.deployment


class Pace(msgspec.Struct, frozen=True):
    """The moves that may take place, by the time at which they were admitted, and what is left to admit."""

    admitted: Mapping[Key, float] = {}
    replicas: float = PER_MINUTE

    def admit(
        self,
        moves: Iterable[Move],
        standings: Mapping[str, Standing],
        now: float,
        passed_s: float,
    ) -> "Pace":
        """Return the pace with the moves that are due; of a namespace, the cluster lost first comes first."""
        due = {other.key: other for other in moves if _is_due(other, standings)}
        admitted = {key: at for key, at in self.admitted.items() if key in due}
        left = min(self.replicas + passed_s * PER_MINUTE / 60, PER_MINUTE)
        unfinished = [key for key in admitted if not due[key].replaced]
        stuck = {cluster for cluster, _ in (key for key in unfinished if now - admitted[key] >= _STUCK_S)}
        begun = {cluster for cluster, _ in unfinished}
        moving, most = begun - stuck, max(1, len(standings) // SHARE)
        for move in _in_turn(due.values(), admitted, standings):
            if move.key in admitted or (move.cluster not in begun and len(moving | {move.cluster}) > most):
                continue
            starting = 0 if move.replaced else min(move.replicas, _LARGEST)
            if left < min(starting, PER_MINUTE):
                break
            left -= starting
            admitted[move.key] = now
            begun.add(move.cluster)
            moving.add(move.cluster)
        return Pace(admitted, left)


def _in_turn(due: Iterable[Move], admitted: Collection[Key], standings: Mapping[str, Standing]) -> list[Move]:
    """Return moves in the order in which they begin: the first of each namespace, then the second ones."""

    def lost_first(move: Move) -> tuple[float, Key]:
        return -standings[move.cluster].lost_s, move.key

    turns: Counter[str] = Counter()
    order: list[tuple[int, Move]] = []
    for move in sorted(due, key=lambda other: (other.key not in admitted, lost_first(other))):
        order.append((turns[move.namespace], move))
        turns[move.namespace] += 1
    return [move for _, move in sorted(order, key=lambda key: (key[0], lost_first(key[1])))]


def _is_due(move: Move, standings: Mapping[str, Standing]) -> bool:
    standing = standings.get(move.cluster, Standing())
    return standing.state is State.LOST and standing.lost_s >= move.after_s
