"""Taints on clusters and the tolerations of deployments (Kubernetes' rules, for a fleet).

One rule: every taint must be tolerated; one that is not repels.
"""

from dataclasses import dataclass

from modelplane.api.inference_cluster import TaintEffect
from modelplane.api.model_deployment import TolerationOperator


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of an InferenceCluster."""

    key: str
    value: str
    effect: TaintEffect

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A deployment's toleration. No `effect` tolerates both; `Exists` with an empty key, every taint."""

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration covers the taint."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.operator is TolerationOperator.EXISTS:
            return self.key in ("", taint.key)
        return (self.key, self.value) == (taint.key, taint.value)
