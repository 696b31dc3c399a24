"""How long tests wait for what must happen, and how often they look: no test says how fast that is."""

PATIENCE_S = 180
"""Seconds, far above what anything takes on a busy machine, so that only what never happens fails."""

LOOK_S = 1.0
"""Seconds between two looks that run a command: each takes a third of a second of a core."""
