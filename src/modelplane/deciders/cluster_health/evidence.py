"""Evidence: what three witnesses say of a cluster, and the finding that follows.

No evidence is not bad evidence: a witness that knows nothing never makes a cluster worse.
"""

from enum import Enum, StrEnum, auto

import msgspec


class State(StrEnum):
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


def judge(seen: Witnesses) -> State | None:
    """Return the state that the witnesses alone show; None if they show nothing.

    A cluster is lost only if two witnesses agree: its API server, and its data path or its heartbeat.
    """
    is_silent = seen.api.evidence is Evidence.BAD
    if is_silent and len(seen.bad) > 1:
        return State.LOST
    if is_silent and seen.data_path.evidence is Evidence.GOOD:
        return State.ISOLATED
    if seen.bad:
        return State.SUSPECT
    return State.REACHABLE if seen.api.evidence is Evidence.GOOD else None
