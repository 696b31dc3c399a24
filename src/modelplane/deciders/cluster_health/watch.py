"""One step of watching the fleet: from what is seen at a time to states, the breaker and admitted moves.

Time counts only while it is watched: after a gap of more than 30 seconds between two steps every window
begins anew, as it does with an empty memory.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from modelplane.deciders.cluster_health.evidence import State, Witnesses
from modelplane.deciders.cluster_health.pacing import Move, Pace
from modelplane.deciders.cluster_health.standing import Standing, advance

_ANSWERS = (State.REACHABLE, State.RETURNING)


class Located(msgspec.Struct, frozen=True):
    """A cluster's standing, and the region that it is in; empty for none."""

    standing: Standing
    region: str = ""


def explain_pause(clusters: Mapping[str, Located], own_problem: str | None) -> str | None:
    """Return why nothing may be replaced; None if it may, or if no cluster is lost."""
    counted = {
        name: located for name, located in clusters.items() if located.standing.state is not State.GONE
    }
    if not any(located.standing.state is State.LOST for located in counted.values()):
        return None
    if own_problem:
        return f"the control plane cannot judge clusters: {own_problem}"
    if not any(located.standing.state in _ANSWERS for located in counted.values()):
        return "no cluster of the fleet answers, so the fault may be the control plane's own connection"
    # A cluster without a region is one of its own.
    regions = {name: located.region or f"cluster {name}" for name, located in counted.items()}
    silent = [name for name, located in counted.items() if located.standing.silent]
    ranked = Counter(regions[name] for name in silent).most_common()
    most = max(count for _, count in ranked)
    exempt = min(region for region, count in ranked if count == most)
    outside = [name for name in counted if regions[name] != exempt]
    also = [name for name in outside if name in silent]
    if len(also) * 3 > len(outside):
        return f"{len(also)} of the {len(outside)} clusters outside {exempt} do not answer either"
    return None


STALL_S: Final = 30.0


class ClusterSeen(msgspec.Struct, frozen=True):
    """Evidence about one cluster. `gone`: its InferenceCluster is being deleted."""

    witnesses: Witnesses
    region: str = ""
    gone: bool = False


class Observation(msgspec.Struct, frozen=True):
    """Every InferenceCluster, the replicas that may have to be replaced, and the control plane's problem."""

    clusters: Mapping[str, ClusterSeen]
    moves: tuple[Move, ...] = ()
    own_problem: str | None = None


class Watched(msgspec.Struct, frozen=True):
    """Report of failover to an owner: its own standing if it is a cluster, or its lost clusters.

    `lost` has the clusters whose replicas of a deployment are to be replaced, each with the cause; `paused`
    is the reason if the breaker is open.
    """

    standing: Standing | None = None
    lost: Mapping[str, str] = {}
    paused: str = ""


class Memory(msgspec.Struct, frozen=True):
    """Memory that one step leaves to the next; `paused` is the reason if the breaker is open."""

    at: float | None = None
    standings: Mapping[str, Standing] = {}
    pace: Pace = msgspec.field(default_factory=Pace)
    paused: str = ""

    def report_for_cluster(self, name: str) -> Watched:
        """Return what an InferenceCluster is told."""
        return Watched(self.standings.get(name), paused=self.paused)

    def report_for_deployment(self, name: str) -> Watched:
        """Return what a ModelDeployment is told, by the name that its moves have."""
        admitted = (cluster for cluster, deployment in self.pace.admitted if deployment == name)
        lost = {cluster: self.standings[cluster].cause for cluster in sorted(admitted)}
        return Watched(lost=lost, paused=self.paused)


def step(memory: Memory, seen: Observation, now: float) -> Memory:
    """Return the memory after an observation at a time, in seconds of any clock that only advances."""
    passed_s = 0.0 if memory.at is None else now - memory.at
    former = memory.standings
    if not 0 <= passed_s <= STALL_S:
        former, passed_s = {name: standing.restart() for name, standing in former.items()}, 0.0
    standings = {
        name: Standing(State.GONE)
        if cluster.gone
        else advance(former.get(name, Standing()), cluster.witnesses, now, passed_s)
        for name, cluster in seen.clusters.items()
    }
    located = {name: Located(standing, seen.clusters[name].region) for name, standing in standings.items()}
    if why := explain_pause(located, seen.own_problem):
        # Once it may go on, the clusters are watched anew.
        standings = {name: standing.restart() for name, standing in standings.items()}
        return Memory(now, standings, replace(memory.pace, admitted={}), why)
    return Memory(now, standings, memory.pace.admit(seen.moves, standings, now, passed_s))
