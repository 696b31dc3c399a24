"""Times as the API writes them: RFC 3339, UTC, whole seconds (``metav1.Time``)."""

from datetime import UTC, datetime, timedelta
from typing import Final

_SECONDS: Final = "%Y-%m-%dT%H:%M:%SZ"


def format_now() -> str:
    """Return the present time."""
    return datetime.now(UTC).strftime(_SECONDS)


def format_now_micro() -> str:
    """Return the present time with microseconds, as a Lease has it (``metav1.MicroTime``)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_ago(seconds: float) -> str:
    """Return the time so many seconds before the present."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime(_SECONDS)


def format_at(seconds: float) -> str:
    """Return the time so many seconds after the beginning of 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime(_SECONDS)


def parse(text: str) -> datetime:
    """Return the time in a text; ``ValueError`` if there is none."""
    # The standard library reads six digits of a second at most, the records have nine.
    head, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    moment = datetime.fromisoformat(f"{head}{dot}{rest[: min(digits, 6)]}{rest[digits:]}")
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)


def measure_age_s(text: str) -> float:
    """Return the seconds since the time in a text; ``ValueError`` if there is none."""
    return (datetime.now(UTC) - parse(text)).total_seconds()


def to_seconds(text: str) -> str:
    """Return a recorded time without the fraction of its second."""
    return parse(text).strftime(_SECONDS)
