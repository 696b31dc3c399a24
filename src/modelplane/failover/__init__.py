"""Failover: the state of every cluster from what is seen of it, and the replicas that may be replaced.

`step` is pure: the caller gives the time as a number, and keeps the memory. Nothing is stored: a caller that
starts with an empty memory watches every cluster anew.
"""

from modelplane.failover.evidence import Evidence, State, Witness, Witnesses
from modelplane.failover.pacing import Move
from modelplane.failover.standing import Standing
from modelplane.failover.watch import ClusterSeen, Memory, Observation, Watched, step

__all__ = [
    "ClusterSeen",
    "Evidence",
    "Memory",
    "Move",
    "Observation",
    "Standing",
    "State",
    "Watched",
    "Witness",
    "Witnesses",
    "step",
]
