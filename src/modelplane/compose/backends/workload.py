"""One engine of a replica as its pods need to know it: its name, its members, its port.

Names never have more than 63 characters and never change with the content, but for objects that
cannot be changed.
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
"""The port on which a replica's pods serve HTTP, and answer ``/health`` once they can."""

_HASH_DIGITS = 10

_GANG_NAME_LENGTH = 49
"""Characters that a LeaderWorkerSet leaves: its pods' labels hold ``<name>-<group>-<revision>``."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One engine of a replica, placed on a cluster."""

    replica: ModelReplica
    engine: PlacedEngine
    port: int = ENGINE_PORT
    """Where the engine itself listens: another one where a sidecar has the pod's."""
    taints: Mapping[str, tuple[NodeTaint, ...]] = field(default_factory=dict)
    """Taints of the nodes, by pool."""
    copies: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What the pods call each Secret and ConfigMap that was copied for them, by kind and name."""

    @property
    def name(self) -> str:
        """The name of what runs the engine."""
        return workload_name(self.replica, self.engine)

    @property
    def namespace(self) -> str:
        """The namespace on the cluster, named like the replica's own."""
        return self.replica.metadata.namespace

    @property
    def head(self) -> PlacedMember:
        """The member that takes requests: the one there is, or the leader."""
        return head(self.engine)

    @property
    def follower(self) -> PlacedMember | None:
        """The workers of a gang."""
        return next((member for member in self.engine.members if member.role is Role.WORKER), None)

    @property
    def phase(self) -> Phase | None:
        """The half of a request that the engine serves; None where it serves whole ones."""
        return self.engine.phase


def head(engine: PlacedEngine) -> PlacedMember:
    """Return the member of an engine that takes requests."""
    return next(member for member in engine.members if member.role is not Role.WORKER)


def is_gang(engine: PlacedEngine) -> bool:
    """Whether an engine spans several pods."""
    return len(engine.members) > 1


def workload_name(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the name of an engine's workload; never the replica's own, which is the Service's."""
    name = child_name(replica.metadata.name, engine.name)
    if not is_gang(engine) or len(name) <= _GANG_NAME_LENGTH:
        return name
    suffix = name[-DIGITS - 1 :]
    return name[: _GANG_NAME_LENGTH - len(suffix)].rstrip("-") + suffix


def workload_key(engine: PlacedEngine) -> str:
    """Return the key of an engine's workload. Another shape of engine is another child."""
    return _KEYS[is_gang(engine)].format(engine.name)


def former_key(engine: PlacedEngine) -> str:
    """Return the key that the workload would have, had the engine the other shape."""
    return _KEYS[not is_gang(engine)].format(engine.name)


_KEYS = {False: "model-serving-{}", True: "model-gang-{}"}


def part_name(replica: ModelReplica, part: str) -> str:
    """Return the name of something that the whole replica has one of.

    No engine's workload is called so, because the name of an engine does not begin with a dash.
    """
    return child_name(replica.metadata.name, "", part)


def with_spec_hash(manifest: Object) -> Object:
    """Return the manifest of a workload with a hash of its spec, by which an edit is seen to be there."""
    content = msgspec.json.encode(manifest["spec"], order="deterministic")
    annotations = {labels.SPEC_HASH: hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
