"""Readiness of children that are not Modelplane's own, by their status: here, and in CEL for Crossplane."""

from collections.abc import Mapping
from typing import Any

import msgspec

from modelplane.api.schema.untyped import get_list, get_map


class Copies(msgspec.Struct, frozen=True):
    """Ready once the status counts at least one serving copy.

    Not the workload's own ``Available``: with one copy and ``maxUnavailable: 1`` that is True at zero.
    """

    field: str
    observes_generation: bool = True
    """True if its status has the observed generation."""

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Return True if a child is ready, as observed."""
        return int(child.get("status", {}).get(self.field, 0)) > 0

    @property
    def query(self) -> str:
        """The same in CEL, with every copy up to date."""
        terms = [
            f"has(object.status.{self.field}) && object.status.{self.field} > 0",
            "has(object.status.updatedReplicas) && object.status.updatedReplicas >= object.spec.replicas",
        ]
        if self.observes_generation:
            terms.append("object.status.observedGeneration >= object.metadata.generation")
        return " && ".join(terms)


class Finished(msgspec.Struct, frozen=True):
    """Ready once a condition is True, of any generation."""

    condition: str

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Return True if a child is ready, as observed."""
        return any(
            condition["type"] == self.condition and condition["status"] == "True"
            for condition in get_list(child, "status", "conditions")
        )

    @property
    def query(self) -> str:
        """The same in CEL."""
        return f"object.status.conditions.exists(c, c.type == '{self.condition}' && c.status == 'True')"


class InPhase(msgspec.Struct, frozen=True):
    """Ready once it is in a phase."""

    phase: str
    field: str = "phase"

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Return True if a child is ready, as observed."""
        return bool(child.get("status", {}).get(self.field) == self.phase)

    @property
    def query(self) -> str:
        """The same in CEL."""
        return f"object.status.{self.field} == '{self.phase}'"


class Reported(msgspec.Struct, frozen=True):
    """Ready once a condition is True, of any generation, or each of its workloads has a ready copy.

    The condition alone would be False as soon as one of two copies is lost.
    """

    condition: str

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Return True if a child is ready, as observed."""
        if Finished(self.condition).hold(child):
            return True
        parts = ("primary", "prefill") if "prefill" in child.get("spec", {}) else ("primary",)
        return all(self.serves(child, part) for part in parts)

    def serves(self, child: Mapping[str, Any], part: str) -> bool:
        """Return True if one of its workloads has a ready copy."""
        return int(get_map(child, "status", "workloads").get(part, {}).get("readyReplicas", 0)) > 0

    @property
    def query(self) -> str:
        """The condition in CEL, of the present generation."""
        return (
            "object.status.observedGeneration >= object.metadata.generation && "
            f"{Finished(self.condition).query}"
        )
