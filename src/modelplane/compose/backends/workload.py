"""Workload: one engine of a replica, with its name, members and port.

Names have at most 63 characters and do not depend on the content, except for immutable objects.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from modelplane.api import labels
from modelplane.api.engines import Phase, Role
from modelplane.api.model_replica import ModelReplica, PlacedEngine, PlacedMember
from modelplane.api.names import DIGITS, child_name
from modelplane.api.node_pools import NodeTaint
from modelplane.compose.composition import Object

ENGINE_PORT = 8000
"""Port on which a replica's pods serve HTTP, and answer ``/health`` once they can."""

_HASH_DIGITS = 10

_GANG_NAME_LENGTH = 49
"""Maximum length of a LeaderWorkerSet's name: its pods' labels hold ``<name>-<group>-<revision>``."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One engine of a replica, placed on a cluster."""

    replica: ModelReplica
    engine: PlacedEngine
    port: int = ENGINE_PORT
    """Port of the engine itself; another one if a sidecar has the pod's."""
    taints: Mapping[str, tuple[NodeTaint, ...]] = field(default_factory=dict)
    """Taints of the nodes, by pool."""
    copies: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Names of the copied Secrets and ConfigMaps, by kind and name of the original."""

    @property
    def name(self) -> str:
        """The name of the engine's workload."""
        return workload_name(self.replica, self.engine)

    @property
    def namespace(self) -> str:
        """The namespace on the cluster, named like the replica's own."""
        return self.replica.metadata.namespace

    @property
    def head(self) -> PlacedMember:
        """The member that serves requests: the only one, or the leader."""
        return head(self.engine)

    @property
    def follower(self) -> PlacedMember | None:
        """The workers of a gang."""
        return next((member for member in self.engine.members if member.role is Role.WORKER), None)

    @property
    def phase(self) -> Phase | None:
        """The phase that the engine serves; None if it serves whole requests."""
        return self.engine.phase


def head(engine: PlacedEngine) -> PlacedMember:
    """Return the member of an engine that serves requests."""
    return next(member for member in engine.members if member.role is not Role.WORKER)


def is_gang(engine: PlacedEngine) -> bool:
    """Return True if an engine spans several pods."""
    return len(engine.members) > 1


def workload_name(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the name of an engine's workload; never the replica's, which is the Service's."""
    name = child_name(replica.metadata.name, engine.name)
    if not is_gang(engine) or len(name) <= _GANG_NAME_LENGTH:
        return name
    suffix = name[-DIGITS - 1 :]
    return name[: _GANG_NAME_LENGTH - len(suffix)].rstrip("-") + suffix


def workload_key(engine: PlacedEngine) -> str:
    """Return the key of an engine's workload. An engine of another shape is another child."""
    return _KEYS[is_gang(engine)].format(engine.name)


def former_key(engine: PlacedEngine) -> str:
    """Return the key of the workload if the engine had the other shape."""
    return _KEYS[not is_gang(engine)].format(engine.name)


_KEYS = {False: "model-serving-{}", True: "model-gang-{}"}


def part_name(replica: ModelReplica, part: str) -> str:
    """Return the name of an object that a replica has one of.

    No engine's workload has this name, because the name of an engine does not begin with a dash.
    """
    return child_name(replica.metadata.name, "", part)


def with_spec_hash(manifest: Object) -> Object:
    """Return the manifest of a workload with a hash of its spec, by which an applied edit is recognized."""
    content = msgspec.json.encode(manifest["spec"], order="deterministic")
    annotations = {labels.SPEC_HASH: hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
