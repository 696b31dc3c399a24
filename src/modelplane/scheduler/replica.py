"""A ModelReplica that exists: where it is, and the nodes and devices it holds.

One rule: a replica belongs to the deployment whose uid it carries, whatever names say.
"""

from dataclasses import dataclass

from modelplane.api.engines import Role


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A device request that a pool's DRA device serves: what goes into the pods' ResourceClaim."""

    name: str
    device_class_name: str
    count: int
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacedMember:
    """A member with its pool. One without claims needs no node of its own."""

    role: Role
    pool: str
    pods: int = 1
    claims: tuple[ResolvedRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedEngine:
    """An engine with its members' pools."""

    name: str
    copies: int
    members: tuple[PlacedMember, ...]


@dataclass(frozen=True, slots=True)
class Replica:
    """One observed ModelReplica. `deleting` is true once its deletion has been asked for.

    `created` is its creation time, as text that sorts by time. `unreachable` says why it cannot reach its
    cluster, and is empty while it can.
    """

    namespace: str
    name: str
    deployment_uid: str
    deployment_name: str
    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]
    uid: str = ""
    ready: bool = False
    deleting: bool = False
    created: str = ""
    unreachable: str = ""
