"""Taints on clusters and the tolerations of deployments (Kubernetes' rules, for a fleet).

One rule: every taint must be tolerated; one that is not repels.
"""

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What an untolerated taint does: keep new replicas away, or also evict those that run."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class Operator(StrEnum):
    """How a toleration is compared with a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of an InferenceCluster."""

    key: str
    value: str
    effect: Effect

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A deployment's toleration. An empty `effect` tolerates both; `Exists` with an empty key, every taint."""

    key: str = ""
    operator: Operator = Operator.EQUAL
    value: str = ""
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration covers the taint."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.operator is Operator.EXISTS:
            return self.key in ("", taint.key)
        return (self.key, self.value) == (taint.key, taint.value)
