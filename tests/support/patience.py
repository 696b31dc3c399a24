"""How long tests wait for what must happen: no test says how fast that is."""

PATIENCE_S = 180
"""Seconds, far above what anything takes on a busy machine, so that only what never happens fails."""
