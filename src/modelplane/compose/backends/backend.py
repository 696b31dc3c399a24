"""Backends: the workloads that run engines on a cluster, one row each.

A backend is a module of this package with a ``Backend``, and its entry in ``table.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from modelplane.api.engines import Role
from modelplane.api.meta import Object
from modelplane.api.model_replica import PlacedEngine
from modelplane.compose.backends.workload import Workload
from modelplane.compose.workload_kinds import WorkloadKind

Claims = Mapping[Role, Object | None]
"""The ResourceClaimTemplate of each member's pods; None if they claim nothing."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of workload that runs engines of one shape."""

    key_format: str
    """Key of a workload, from the engine's name. Never changed: another key is another child."""
    runs: Callable[[PlacedEngine], bool]
    """Returns True if it runs an engine."""
    workload: Callable[[Workload, Claims], Object]
    """Compose the workload of an engine."""
    kind: WorkloadKind
    role: str = ""
    """The purpose of the kind, in messages about clusters that lack it."""
    name_length: int = 63
    """Maximum length of a workload's name."""

    def key(self, engine: PlacedEngine) -> str:
        """Return the key of an engine's workload."""
        return self.key_format.format(engine.name)
