"""Health of clusters, for failover: when one becomes Suspect or Lost, and whose replicas may be replaced.

`step` is pure: the caller gives the time as a number, and keeps the memory. Nothing is stored: a caller that
starts with an empty memory watches every cluster anew.

No evidence is not bad evidence: a witness that knows nothing never makes a cluster worse.

The damper: a cluster that was lost is trusted again after 2 minutes without a bad witness, twice as long
for each further time that it was lost within an hour, and 30 minutes at most. Until then the time for which
it was lost adds up, so a cluster that comes and goes is left in the end.

Pacing: it delays and never stops, and a larger loss is replaced in waves. Namespaces take turns, so that many
deployments of one delay the others' by no more than one of them does.

Time counts only while it is watched: after a gap of more than 30 seconds between two steps every window
begins anew, as it does with an empty memory.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum, StrEnum, auto
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

TRUSTED_AFTER_S: Final = 120.0
LONGEST_S: Final = 1800.0
_RELAPSE_S: Final = 3600.0
_COUNTED: Final = 8
PER_MINUTE: Final = 10
"""Replicas that may begin to be replaced within a minute."""
SHARE: Final = 10
"""One cluster in so many may be replaced at a time, and one in any case."""
_LARGEST: Final = 5 * PER_MINUTE
"""Replicas that a move counts for at most: a larger deployment delays others by five minutes."""
_STUCK_S: Final = 600.0
"""Time after which a cluster with replicas that find no place makes room for the next one."""
STALL_S: Final = 30.0


class ClusterState(StrEnum):
    """State of a cluster, as its condition Reachable has it."""

    REACHABLE = "Reachable"
    SUSPECT = "Suspect"
    """A witness is bad. No new replicas are placed there."""
    ISOLATED = "Isolated"
    """Its API server does not answer, and requests to its replicas succeed. They stay."""
    LOST = "Lost"
    """Neither its API server nor its replicas answer."""
    RETURNING = "Returning"
    """It was lost and answers again, but not yet for long enough."""
    GONE = "Gone"
    """Its InferenceCluster is being deleted: a person says that it does not come back."""


class Evidence(Enum):
    """Statement of one witness."""

    UNKNOWN = auto()
    GOOD = auto()
    BAD = auto()


class Witness(msgspec.Struct, frozen=True):
    """One witness; `cause` says in a part of a sentence what is bad."""

    evidence: Evidence = Evidence.UNKNOWN
    cause: str = ""


class Witnesses(msgspec.Struct, frozen=True):
    """The witnesses of one cluster.

    `api` is the connection to its API server, `data_path` what becomes of requests to its replicas, and
    `heartbeat` a sign of life that the cluster sends by itself.
    """

    api: Witness = Witness()
    data_path: Witness = Witness()
    heartbeat: Witness = Witness()

    @property
    def bad(self) -> tuple[Witness, ...]:
        """Return the witnesses that are bad."""
        witnesses = (self.api, self.data_path, self.heartbeat)
        return tuple(witness for witness in witnesses if witness.evidence is Evidence.BAD)

    @property
    def cause(self) -> str:
        """Return the causes of the bad witnesses, as part of a sentence."""
        return " and ".join(witness.cause for witness in self.bad if witness.cause)


def judge(seen: Witnesses) -> ClusterState | None:
    """Return the state that the witnesses alone show; None if they show nothing.

    A cluster is lost only if two witnesses agree: its API server, and its data path or its heartbeat.
    """
    is_silent = seen.api.evidence is Evidence.BAD
    if is_silent and len(seen.bad) > 1:
        return ClusterState.LOST
    if is_silent and seen.data_path.evidence is Evidence.GOOD:
        return ClusterState.ISOLATED
    if seen.bad:
        return ClusterState.SUSPECT
    return ClusterState.REACHABLE if seen.api.evidence is Evidence.GOOD else None


class Standing(msgspec.Struct, frozen=True):
    """State of a cluster.

    `lost_s` is the time for which it was seen lost since it was last trusted, `answers_s` that since it
    answers again, and `losses` the times at which it was lost, in the caller's seconds.
    """

    state: ClusterState = ClusterState.REACHABLE
    cause: str = ""
    lost_s: float = 0.0
    answers_s: float = 0.0
    losses: tuple[float, ...] = ()
    distrusted: bool = False
    """True from the time at which it was lost until it is trusted again."""
    silent: bool = False
    """True if its API server does not answer."""

    @property
    def trusted_after_s(self) -> float:
        """Seconds without a bad witness after which it is trusted again."""
        return min(TRUSTED_AFTER_S * 2.0 ** min(max(len(self.losses) - 1, 0), 10), LONGEST_S)

    def restart(self) -> "Standing":
        """Return the same state, watched from now."""
        return replace(self, lost_s=0.0, answers_s=0.0)


def advance(before: Standing, seen: Witnesses, now: float, passed_s: float) -> Standing:
    """Return the standing `passed_s` seconds later, when the witnesses say this."""
    state = judge(seen)
    if state is None:
        return before
    losses = tuple(at for at in before.losses if now - at < _RELAPSE_S)[-_COUNTED:]
    is_silent = seen.api.evidence is Evidence.BAD
    after = replace(before, state=state, cause=seen.cause, answers_s=0.0, losses=losses, silent=is_silent)
    if state is ClusterState.LOST:
        if before.state is ClusterState.LOST:
            return replace(after, lost_s=before.lost_s + passed_s)
        return replace(after, losses=(*losses, now), distrusted=True)
    if state is not ClusterState.REACHABLE or not before.distrusted:
        return after
    answers_s = before.answers_s + passed_s if before.state is ClusterState.RETURNING else 0.0
    if answers_s >= after.trusted_after_s:
        return Standing(losses=losses)
    return replace(
        after,
        state=ClusterState.RETURNING,
        answers_s=answers_s,
        cause="the cluster was lost, and hasn't responded for long enough yet",
    )


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
        self, moves: Iterable[Move], standings: Mapping[str, Standing], now: float, passed_s: float
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
    return standing.state is ClusterState.LOST and standing.lost_s >= move.after_s


_ANSWERING = (ClusterState.REACHABLE, ClusterState.RETURNING)


class Located(msgspec.Struct, frozen=True):
    """A cluster's standing, and the region that it is in; empty for none."""

    standing: Standing
    region: str = ""


def explain_pause(clusters: Mapping[str, Located], own_problem: str | None) -> str | None:
    """Return why nothing may be replaced; None if it may, or if no cluster is lost."""
    counted = {
        name: located for name, located in clusters.items() if located.standing.state is not ClusterState.GONE
    }
    if not any(located.standing.state is ClusterState.LOST for located in counted.values()):
        return None
    if own_problem:
        return f"the control plane cannot judge clusters: {own_problem}"
    if not any(located.standing.state in _ANSWERING for located in counted.values()):
        return "no cluster in the fleet responds, so the control plane's own connection can be the cause"
    # A cluster without a region is one of its own.
    regions = {name: located.region or f"cluster {name}" for name, located in counted.items()}
    silent = [name for name, located in counted.items() if located.standing.silent]
    ranked = Counter(regions[name] for name in silent).most_common()
    most = max(count for _, count in ranked)
    exempt = min(region for region, count in ranked if count == most)
    outside = [name for name in counted if regions[name] != exempt]
    also = [name for name in outside if name in silent]
    if len(also) * 3 > len(outside):
        return f"{len(also)} of the {len(outside)} clusters outside {exempt} don't respond either"
    return None


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
        name: Standing(ClusterState.GONE)
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
