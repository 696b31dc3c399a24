"""Delay before the restart of a process that exited."""

FIRST_S = 0.2
LONGEST_S = 10.0
HEALTHY_AFTER_S = 30.0
"""A process that lived this long is forgiven its earlier deaths."""


def failures_after(failures: int, lived_s: float) -> int:
    """Return the deaths in a row that count, once a process has died again after ``lived_s`` seconds."""
    return 1 if lived_s >= HEALTHY_AFTER_S else failures + 1


def pause_s(failures: int) -> float:
    """Return the seconds to wait after so many deaths in a row: 0.2 doubling up to 10."""
    return float(min(LONGEST_S, FIRST_S * 2 ** min(failures - 1, 16)))
