"""Pacing: how many clusters and replicas are replaced at a time, over the whole fleet.

It delays and never stops: a larger loss is replaced in waves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from modelplane.failover.evidence import State
from modelplane.failover.standing import Standing

PER_MINUTE: Final = 10
"""Replicas that may begin to be replaced within a minute."""

SHARE: Final = 10
"""One cluster in so many may be replaced at a time, and one in any case."""

_LARGEST: Final = 5 * PER_MINUTE
"""Replicas that a move counts for at most: a larger deployment delays others by five minutes."""

_STUCK_S: Final = 600.0
"""Time after which a cluster whose replicas find no place makes room for the next one."""

Key: TypeAlias = tuple[str, str]
"""A cluster and a deployment."""


@dataclass(frozen=True, slots=True)
class Move:
    """Replicas of one deployment on one cluster, to be replaced if that is lost for `after_s`.

    `replaced` is true once enough replicas serve elsewhere.
    """

    cluster: str
    deployment: str
    after_s: float
    replicas: int
    replaced: bool = False

    @property
    def key(self) -> Key:
        """The cluster and the deployment."""
        return self.cluster, self.deployment


@dataclass(frozen=True, slots=True)
class Pace:
    """The moves that may take place, by the time at which they were admitted, and what is left to admit."""

    admitted: Mapping[Key, float] = field(default_factory=dict)
    replicas: float = PER_MINUTE

    def admit(
        self,
        moves: Iterable[Move],
        standings: Mapping[str, Standing],
        now: float,
        passed_s: float,
    ) -> "Pace":
        """Return the pace with the moves that are due; the cluster that was lost first comes first."""
        due = {each.key: each for each in moves if _is_due(each, standings)}
        admitted = {key: at for key, at in self.admitted.items() if key in due}
        left = min(self.replicas + passed_s * PER_MINUTE / 60, PER_MINUTE)
        moving = {
            cluster
            for (cluster, deployment), at in admitted.items()
            if not due[cluster, deployment].replaced and now - at < _STUCK_S
        }
        for move in sorted(due.values(), key=lambda each: (-standings[each.cluster].lost_s, each.key)):
            if move.key in admitted or len(moving | {move.cluster}) > max(1, len(standings) // SHARE):
                continue
            starting = 0 if move.replaced else min(move.replicas, _LARGEST)
            if left < min(starting, PER_MINUTE):
                break
            left -= starting
            admitted[move.key] = now
            moving.add(move.cluster)
        return Pace(admitted, left)


def _is_due(move: Move, standings: Mapping[str, Standing]) -> bool:
    standing = standings.get(move.cluster, Standing())
    return standing.state is State.LOST and standing.lost_s >= move.after_s
