"""Failover: the state of every cluster from what is seen of it, and the replicas that may be replaced.

`step` is pure: the caller gives the time as a number, and keeps the memory. Nothing is stored: a caller that
starts with an empty memory watches every cluster anew.
"""

from modelplane.deciders.cluster_health.evidence import Evidence, State, Witness, Witnesses
from modelplane.deciders.cluster_health.pacing import Move
from modelplane.deciders.cluster_health.standing import Standing
from modelplane.deciders.cluster_health.watch import ClusterSeen, Memory, Observation, Watched, step

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
