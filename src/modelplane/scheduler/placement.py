"""The answer of the scheduler: where each replica of one deployment is to be, and why not where it is not.

One rule: a replica that exists is in exactly one of `assignments` and `dropped`.
"""

from dataclasses import dataclass, field

from modelplane.scheduler.diagnosis import Diagnosis
from modelplane.scheduler.types import PlacedEngine


@dataclass(frozen=True, slots=True)
class Assignment:
    """One replica on one cluster.

    `replica` is the existing object's name, empty for a new one. `retained`: it exists. `leaving`: it
    exists, the deployment no longer fits where it is, and it stays as it is (its `engines` are those
    observed) until a replacement is ready; `reason` then says why it has to go.
    """

    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]
    replica: str = ""
    retained: bool = False
    leaving: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An existing replica (by object name) that is not to be kept, and the positive reason."""

    replica: str
    reason: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Assignments in order of cluster, index and name; what is dropped; what is short and why."""

    assignments: tuple[Assignment, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
