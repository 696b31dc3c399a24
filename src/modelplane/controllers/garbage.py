"""How often a controller looks for reference cycles.

The copies of a large fleet are millions of objects that live for long and hold no cycles. Python's own
thresholds suit small programs: with them a seventh of a controller's time went into walking the copies,
for up to a second at a time.
"""

import gc

_THRESHOLDS = (20_000, 20, 100)


def collect_seldom() -> None:
    """Look at young objects after more of them, and at all objects hardly ever."""
    gc.set_threshold(*_THRESHOLDS)
