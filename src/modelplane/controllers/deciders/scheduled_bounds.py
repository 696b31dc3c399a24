"""Bounds of an autoscaler now: those of its spec, or those of the open windows of its schedules."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from modelplane.api.inference_autoscaler import InferenceAutoscaler, InferenceAutoscalerSpec
from modelplane.deciders.autoscaling.schedules import Bounds, Invalid, Schedule, find_bounds


class ScheduledBounds:
    """The bounds of one autoscaler, remembered until a window can begin or end."""

    def __init__(self) -> None:
        self._spec: tuple[object, ...] | None = None
        self._found: Bounds | Invalid | None = None

    def at(self, autoscaler: InferenceAutoscaler, now: datetime) -> Bounds | Invalid:
        """Return the bounds at a time, or the schedule that cannot be followed."""
        spec = autoscaler.spec
        asked = spec.schedules, spec.min_replicas, spec.max_replicas
        known = self._found
        is_past = isinstance(known, Bounds) and now >= known.until
        if known is None or is_past or asked != self._spec:
            known = self._found = _bounds(spec, now)
            self._spec = asked
        return known


def _bounds(spec: InferenceAutoscalerSpec, now: datetime) -> Bounds | Invalid:
    schedules: list[Schedule] = []
    for schedule in _schedules(spec):
        if isinstance(schedule, Invalid):
            return schedule
        schedules.append(schedule)
    return find_bounds(schedules, spec.min_replicas, spec.max_replicas, now)


def _schedules(spec: InferenceAutoscalerSpec) -> Iterator[Schedule | Invalid]:
    for schedule in spec.schedules:
        try:
            zone = ZoneInfo(schedule.time_zone)
        # A folder of the database has an error of its own.
        except (ZoneInfoNotFoundError, OSError, ValueError):
            cause = f'has the time zone "{schedule.time_zone}", which the IANA database does not have'
            yield Invalid(schedule.name, cause)
            continue
        limits = schedule.min_replicas, schedule.max_replicas
        yield Schedule(schedule.name, schedule.cron, zone, schedule.duration_seconds, *limits)
