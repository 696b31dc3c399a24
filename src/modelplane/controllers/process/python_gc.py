"""Thresholds of Python's garbage collector for a controller.

The copies of a large fleet are millions of objects that live for long and hold no cycles. With Python's
default thresholds, a seventh of a controller's time went into traversing the copies, for up to a second at a
time.
"""

import gc

_THRESHOLDS = (20_000, 20, 100)


def collect_seldom() -> None:
    """Look at young objects after more of them, and at all objects hardly ever."""
    gc.set_threshold(*_THRESHOLDS)
