"""Memory of an autoscaler: evidence, its last write, and the writes of others.

Three changes of ``spec.replicas`` by others in ten minutes stop the autoscaler (reason ``OtherWriter``).
"""

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from modelplane.api.conditions.reasons import InferenceAutoscalerCondition, InferenceAutoscalerReason
from modelplane.api.inference_autoscaler import InferenceAutoscaler, InferenceAutoscalerSpec
from modelplane.deciders.autoscaling.autoscaler_state import AutoscalerState, Counts, Inert
from modelplane.deciders.autoscaling.evidence import Evidence
from modelplane.deciders.autoscaling.schedules import Bounds, Invalid, Schedule, find_bounds
from modelplane.kube import timestamps

CONTEST_S = 600.0
"""Changes by others within this time are counted together."""
CONTESTED = 3
"""Number of such changes from which the deployment is left to the other writer."""
_SEEN_WITHIN_S = 10.0
"""Time in which an own write is seen by the informer."""
_TELL_EVERY_S = 30.0
"""Least time between two statuses that differ in counts only."""
CONTEST = (
    f"another manager changed spec.replicas {CONTESTED} times in {CONTEST_S / 60:.0f} minutes: remove the "
    "other autoscaler, or omit spec.replicas from the manifests that are applied repeatedly"
)
_PATIENCE_S = 30.0
"""Time for which a new autoscaler waits for the first counts of a gateway that may be starting."""
_READING = AutoscalerState(
    inert=Inert.NO_METRICS, problem="the gateway's counts are still being read", reading=True
)


def _bounds(spec: InferenceAutoscalerSpec, now: datetime) -> Bounds | Invalid:
    schedules: list[Schedule] = []
    for schedule in spec.schedules:
        try:
            zone = ZoneInfo(schedule.time_zone)
        # A folder of the database has an error of its own.
        except (ZoneInfoNotFoundError, OSError, ValueError):
            cause = f'uses time zone "{schedule.time_zone}", which is not in the IANA database'
            return Invalid(schedule.name, cause)
        limits = schedule.min_replicas, schedule.max_replicas
        schedules.append(Schedule(schedule.name, schedule.cron, zone, schedule.duration_seconds, *limits))
    return find_bounds(schedules, spec.min_replicas, spec.max_replicas, now)


_FIRST_RETRY_S, _LAST_RETRY_S = 2.0, 60.0
"""Time until a refused write is tried again; it doubles with each refusal."""


@dataclass
class AutoscalerMemory:
    """Memory of one autoscaler."""

    evidence: Evidence = field(default_factory=Evidence)
    _bounds: Bounds | Invalid | None = None
    """The bounds, remembered until a window can begin or end."""
    _bounded_by: tuple[object, ...] = ()
    """The settings that the bounds follow from."""
    state: AutoscalerState = _READING
    _asked: int | None = None
    """Number of replicas that was written, or else observed last."""
    _wrote: float | None = None
    """Time of a write that is not seen yet."""
    _foreign: deque[float] = field(default_factory=lambda: deque(maxlen=CONTESTED))
    """Times at which others changed the number."""
    _refusals: int = 0
    """Number of writes that were refused since the last one that was not."""
    _retry: float = 0.0
    """Time before which nothing is written."""
    _starting: float | None = None
    """Time of a start from zero that is not over."""
    _began: float | None = None
    """Time of the first look."""
    _told: float | None = None
    """Time of the last counts in the state."""

    @classmethod
    def of(cls, autoscaler: InferenceAutoscaler) -> "AutoscalerMemory":
        """Return what a former process has told in the status, while nothing is known."""
        status = autoscaler.status
        replicas, changed = status.replicas, status.last_scale_time
        state = replace(
            _READING,
            desired=replicas.desired if replicas else 0,
            ready=replicas.ready if replicas else 0,
            decision=status.decision,
            open_schedules=tuple(status.open_schedules),
            changed=timestamps.format_at(changed.timestamp()) if changed else "",
            limited=_limited(autoscaler),
            cold_start_s=status.cold_start_seconds,
        )
        return cls(state=state)

    def bounds_at(self, autoscaler: InferenceAutoscaler, now: datetime) -> Bounds | Invalid:
        """Return the bounds at a time, or the schedule that cannot be followed."""
        spec, known = autoscaler.spec, self._bounds
        asked = spec.schedules, spec.min_replicas, spec.max_replicas
        is_past = isinstance(known, Bounds) and now >= known.until
        if known is None or is_past or asked != self._bounded_by:
            known = self._bounds = _bounds(spec, now)
            self._bounded_by = asked
        return known

    def observe(self, replicas: int, now: float) -> int:
        """Return the number of replicas that is asked for; an own write may not be seen at once."""
        if self._asked is None:
            self._asked = replicas
        if replicas == self._asked:
            self._wrote = None
            return replicas
        if self._wrote is not None and now - self._wrote < _SEEN_WITHIN_S:
            return self._asked
        if self.state.decision:
            self._foreign.append(now)
        self._asked, self._wrote = replicas, None
        return replicas

    def is_early(self, now: float) -> bool:
        """Return True while there can be no counts yet: nothing was ever read or said of this autoscaler."""
        if self._began is None:
            self._began = now
        return self.state.reading and now - self._began < _PATIENCE_S

    def is_contested(self, now: float) -> bool:
        """Return True while something else keeps changing the number of replicas."""
        return len(self._foreign) == CONTESTED and now - self._foreign[0] < CONTEST_S

    def note_start(self, ready: int, now: float) -> None:
        """Measure a start from zero."""
        if self._starting is not None and ready:
            self.state = replace(self.state, cold_start_s=round(now - self._starting))
            self._starting = None

    def may_write(self, now: float) -> bool:
        """Return False while a refused write waits to be tried again."""
        return now >= self._retry

    def note_refusal(self, now: float) -> None:
        """Note a refused write."""
        self._retry = now + min(_FIRST_RETRY_S * 2**self._refusals, _LAST_RETRY_S)
        self._refusals = min(self._refusals + 1, 10)

    def note_write(self, before: int, replicas: int, why: str, now: float) -> None:
        """Note a change."""
        self._asked, self._wrote, self._told = replicas, now, None
        self._refusals, self._retry = 0, 0.0
        if not before:
            self._starting = now
        elif not replicas:
            self._starting = None
        self.state = replace(self.state, decision=why, changed=timestamps.format_now())

    def note_open(self, schedules: tuple[str, ...]) -> None:
        """Note the schedules whose window is open."""
        if schedules != self.state.open_schedules:
            self.state = replace(self.state, open_schedules=schedules)

    def hold(self, why: Inert, problem: str, desired: int, ready: int) -> None:
        """Note why nothing is decided."""
        self.state = replace(
            self.state, reading=False, inert=why, problem=problem, desired=desired, ready=ready
        )

    def tell(self, desired: int, ready: int, limited: bool | None, counts: Counts | None, now: float) -> None:
        """Note a decision. Counts alone are told seldom, so that few statuses are written."""
        limited = self.state.limited if limited is None else limited
        known = replace(
            self.state, reading=False, inert=None, problem="", limited=limited, desired=desired, ready=ready
        )
        is_due = self._told is None or now - self._told >= _TELL_EVERY_S
        if counts is not None and (known != self.state or (is_due and _differ(counts, self.state.counts))):
            self._told = now
            known = replace(known, counts=counts)
        self.state = known


def _limited(autoscaler: InferenceAutoscaler) -> bool | None:
    """Return what the condition of a former process tells of ``maxReplicas``."""
    for condition in autoscaler.status.conditions:
        if condition.type == InferenceAutoscalerCondition.SCALING_LIMITED:
            return condition.reason == InferenceAutoscalerReason.TOO_MANY_REPLICAS
    return None


def _differ(counts: Counts, before: Counts | None) -> bool:
    return before is None or replace(counts, time=before.time) != before
