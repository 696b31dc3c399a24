"""A ModelDeployment as the scheduler sees it: how many replicas, of which engines, where they may go.

One rule: both published shapes of the kind become this one before they get here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from modelplane.api.engines import Role
from modelplane.scheduler.taint import Toleration


class Phase(StrEnum):
    """The half of PrefillDecode serving that an engine does; NONE for a unified engine."""

    NONE = ""
    PREFILL = "Prefill"
    DECODE = "Decode"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices that each pod of a member needs on its node; all `selectors` (CEL) must match one device."""

    name: str
    count: int = 1
    selectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """One role of an engine. `pods` is how many of it one copy of the engine has, each on its own node."""

    role: Role = Role.STANDALONE
    pods: int = 1
    requests: tuple[DeviceRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """A serving unit of a replica; it goes to one pool, or its members to pools that a fabric joins."""

    name: str
    copies: int = 1
    members: tuple[Member, ...] = (Member(),)
    phase: Phase = Phase.NONE

    @property
    def gang(self) -> bool:
        """Whether pods of several nodes serve together."""
        return any(member.role is not Role.STANDALONE for member in self.members)


@dataclass(frozen=True, slots=True)
class CacheFootprint:
    """Which clusters the deployment's ModelCache covers; `known` is false while the cache cannot be read."""

    known: bool
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One ModelDeployment. `cache` is None when it refers to none.

    `picks` tells whether an endpoint picker chooses the pod that serves a request.
    """

    namespace: str
    name: str
    uid: str
    replicas: int
    engines: tuple[Engine, ...]
    cluster_selector: Mapping[str, str] = field(default_factory=dict)
    cache: CacheFootprint | None = None
    tolerations: tuple[Toleration, ...] = ()
    picks: bool = False
