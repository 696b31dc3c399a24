"""Settings of an autoscaler."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds, targets and windows."""

    least: int = 1
    most: int = 1
    requests: float | None = None
    """Requests in flight and held per replica."""
    tokens_per_second: float | None = None
    """Tokens of answers per second and replica."""
    first_token_s: float | None = None
    """Goal for the time to the first token of 95 of 100 streams, in seconds."""
    down_s: float = 600.0
    """Seconds in which no more replicas were needed, before a step down."""
    idle_s: float = 900.0
    """Seconds without a request, before the last replica is given up."""
