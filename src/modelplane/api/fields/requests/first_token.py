"""First tokens: the buckets in which the gateway counts the times until a stream's first byte."""

BOUNDS_S = (
    *(0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0),
)
"""Upper bounds in seconds, as the gateway module has them; a last bucket has no bound."""

BUCKETS = len(BOUNDS_S) + 1
