"""Facts of a replica: what Crossplane alone knows of the objects on its cluster, and of routes to it."""

from typing import TypeAlias

import msgspec

from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Request, Silence


class ReplicaFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelReplica reads beside objects."""

    routed_by: str = ""
    """The objects that still route to its endpoint, if routes follow endpoints with a delay."""
    unobserved: frozenset[str] = frozenset()
    """Keys of children that were created and whose state is not known yet."""
    silence: Silence | None = None
    """The connection error that writing or reading its objects on its cluster ended with."""


ReplicaRequest: TypeAlias = Request[ModelReplica, ReplicaFacts]
