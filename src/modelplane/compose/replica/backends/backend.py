"""The type of a backend: the workload that runs engines of one shape. Each is an entry in ``table.py``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.api import labels
from modelplane.api.fields.pods.engines import Role, ServingBackend
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.names import DIGITS, child_name
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends.workload import Marks, Workload
from modelplane.compose.workload_kinds import WorkloadKind

Claims = Mapping[Role, Object | None]
"""The ResourceClaimTemplate of each member's pods; None if they claim nothing."""

_LEADER: Final = {labels.LWS_ROLE: "leader"}
_NO_LEADER: Final = {"key": labels.LWS_ROLE, "operator": "DoesNotExist"}


def build_own_marks(replica: ModelReplica, _engine: PlacedEngine, name: str) -> Marks:
    """Return the labels that Modelplane itself sets on the pods of a workload of a name."""
    return Marks({labels.WORKLOAD: name}, _LEADER, _NO_LEADER, {labels.SERVING: replica.metadata.name})


def engine_key(key_format: str) -> Callable[[ModelReplica, PlacedEngine], str]:
    """Return the key of a workload, from the engine's name. Never changed: another key is another child."""
    return lambda _replica, engine: key_format.format(engine.name)


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of workload that runs engines of one shape."""

    key: Callable[[ModelReplica, PlacedEngine], str]
    """Returns the key of an engine's workload, which the engines of one workload share."""
    runs: Callable[[PlacedEngine], bool]
    """Returns True if it runs an engine of a replica with its choice."""
    workload: Callable[[Workload, Claims], Object]
    """Compose the workload of an engine, or of all engines that share it."""
    kind: WorkloadKind
    role: str = ""
    """The purpose of the kind, in messages about clusters that lack it."""
    name_length: int = 63
    """Maximum length of a workload's name."""
    choice: ServingBackend = ServingBackend.MODELPLANE
    """The choice of a replica that it belongs to."""
    heads: Callable[[ModelReplica, PlacedEngine], bool] = lambda _replica, _engine: True
    """Returns False for an engine that runs in the workload of another one."""
    marks: Callable[[ModelReplica, PlacedEngine, str], Marks] = build_own_marks
    """Returns the labels by which the pods of an engine are found."""
    rejected: Callable[[ModelReplica], Rejected | None] = lambda _replica: None
    """Returns why it cannot run the engines of a replica; None if it can."""

    def name(self, replica: ModelReplica, engine: PlacedEngine) -> str:
        """Return the name of an engine's workload; never the replica's own, which is the Service's."""
        return shortened(child_name(replica.metadata.name, engine.name), self.name_length)


def shortened(name: str, most: int) -> str:
    """Return the name of a child with at most some characters, with the digits that make it unique."""
    if len(name) <= most:
        return name
    suffix = name[-DIGITS - 1 :]
    return name[: most - len(suffix)].rstrip("-") + suffix
