"""State of a standby, step by step: it runs after a time of need, and returns after a longer one without.

A time begins when its cause is seen first. It begins anew when the cause was gone for a moment, or when the
process that watches is a new one. Without current evidence nothing changes.
"""

import datetime as dt

import msgspec

from modelplane.api.fields.deployment.standby_settings import StandbyFor, StandbyStatus, StandbyTrigger
from modelplane.compose.deployment.preferred import Saturation, Seen


def step(
    before: StandbyStatus,
    seen: Seen,
    settings: StandbyFor,
    now: dt.datetime,
    watching_since: dt.datetime | None = None,
) -> StandbyStatus:
    """Return the next state; ``watching_since`` is the time from which somebody watches without a break."""
    if not seen.is_current:
        return before
    now = now.replace(microsecond=0)
    state = _with_times(before, seen, settings, now)
    for trigger, since, after in _windows(state, settings):
        if since is not None and _passed(since, now, watching_since) >= after:
            return StandbyStatus(
                preferred=state.preferred, active=not state.active, since=now, trigger=trigger
            )
    return state


def left_s(
    state: StandbyStatus,
    settings: StandbyFor,
    now: dt.datetime | None,
    watching_since: dt.datetime | None = None,
) -> float | None:
    """Return the seconds until a time is over; None if none has begun."""
    if now is None:
        return None
    left = [
        after - _passed(since, now, watching_since)
        for _, since, after in _windows(state, settings)
        if since is not None
    ]
    return max(1.0, min(left)) if left else None


def _windows(
    state: StandbyStatus, settings: StandbyFor
) -> tuple[tuple[StandbyTrigger | None, dt.datetime | None, int], ...]:
    """Return the times that may end a state: the trigger of the next one, their beginning and length."""
    if state.active:
        return ((None, state.served_since, settings.return_after_seconds),)
    return (
        (StandbyTrigger.UNPLACED, state.unplaced_since, settings.after_seconds),
        (StandbyTrigger.SATURATED, state.saturated_since, settings.saturated_after_seconds),
    )


def _with_times(before: StandbyStatus, seen: Seen, settings: StandbyFor, now: dt.datetime) -> StandbyStatus:
    served = before.active and bool(seen.served_by) and not _is_held_back(before, seen, settings)
    unplaced = seen.unplaced and StandbyTrigger.UNPLACED in settings.when
    saturated = seen.saturation is Saturation.SATURATED and StandbyTrigger.SATURATED in settings.when
    return msgspec.structs.replace(
        before,
        served_since=_since(before.served_since, now) if served else None,
        unplaced_since=_since(before.unplaced_since, now) if unplaced and not before.active else None,
        saturated_since=_since(before.saturated_since, now) if saturated and not before.active else None,
    )


def _is_held_back(state: StandbyStatus, seen: Seen, settings: StandbyFor) -> bool:
    """Return True if the load keeps a standby from returning."""
    if StandbyTrigger.SATURATED not in settings.when:
        return False
    if state.trigger is StandbyTrigger.SATURATED:
        # Its share of the requests goes back to the preferred one, which must have room for it.
        return seen.saturation is not Saturation.HEADROOM
    return seen.saturation is Saturation.SATURATED


def _since(before: dt.datetime | None, now: dt.datetime) -> dt.datetime:
    # A clock that was set back begins anew.
    return now if before is None or before > now else before


def _passed(since: dt.datetime, now: dt.datetime, watching_since: dt.datetime | None) -> float:
    begun = since if watching_since is None else max(since, watching_since)
    return (now - begun).total_seconds()
