"""State of an autoscaler: its last decision, or why it changes nothing."""

from dataclasses import dataclass
from enum import StrEnum


class Inert(StrEnum):
    """Reason for which an autoscaler changes nothing."""

    NO_METRICS = "NoMetrics"
    OTHER_WRITER = "OtherWriter"
    """Others change the number repeatedly, as ``controllers/decision_loops/autoscaler_memory.py`` finds."""
    NOT_WRITTEN = "ReconcileError"
    INVALID_SCHEDULE = "InvalidSettings"
    TOO_MANY_SERVICES = "LimitExceeded"
    STANDBY = "NotNeeded"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the gateway at a time (RFC 3339)."""

    time: str
    in_flight: int
    held: int
    tokens_per_second: int
    first_token_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AutoscalerState:
    """The last decision on a deployment."""

    inert: Inert | None = None
    """Reason for which nothing is decided; None while decisions are made."""
    problem: str = ""
    """The same as a sentence."""
    reading: bool = False
    """True before the first look at the gateway's counts: nothing is known of them, good or bad."""
    desired: int = 0
    ready: int = 0
    decision: str = ""
    """Reason of the last change."""
    open_schedules: tuple[str, ...] = ()
    """Schedules whose window is open."""
    changed: str = ""
    """Time of the last change (RFC 3339)."""
    limited: bool | None = None
    """True if the load needs more replicas than ``maxReplicas``; None if nothing has told yet."""
    cold_start_s: int | None = None
    counts: Counts | None = None
