"""The table of backends: which one runs an engine, and the names that follow."""

from collections.abc import Container, Mapping

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends.backend import GANG, STANDALONE, Backend
from modelplane.compose.replica.backends.kserve import KSERVE
from modelplane.compose.replica.backends.workload import Marks

BACKENDS: tuple[Backend, ...] = (
    STANDALONE,
    GANG,
    KSERVE,
)
"""Every backend. The first one of a replica's choice that runs an engine has it."""


def backend_of(replica: ModelReplica, engine: PlacedEngine) -> Backend:
    """Return the backend of an engine."""
    return next(
        backend
        for backend in BACKENDS
        if backend.choice is replica.spec.find_backend() and backend.runs(engine)
    )


def workload_keys(replica: ModelReplica, engine: PlacedEngine) -> tuple[str, ...]:
    """Return the key of an engine's workload, then those that it would have with each other backend."""
    own = backend_of(replica, engine)
    others = (backend.key(replica, engine) for backend in BACKENDS if backend is not own)
    return own.key(replica, engine), *others


def workload_key(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the key of an engine's workload. Another backend is another child."""
    return backend_of(replica, engine).key(replica, engine)


def reject_other_backend(replica: ModelReplica, observed: Container[str]) -> Rejected | None:
    """Return why a replica cannot have its choice, with which it does not run; None if it can."""
    choice = replica.spec.find_backend()
    for engine in replica.spec.engines:
        for row in BACKENDS:
            if row.choice is not choice and row.key(replica, engine) in observed:
                return Rejected(
                    Reason.UNSUPPORTED_TOPOLOGY,
                    f'engine "{engine.name}"',
                    f"runs with the backend {row.choice}, and spec.backend is {choice}",
                    "set it back, or delete the replica to have it made anew",
                )
    return None


def marks_of(replica: ModelReplica, engine: PlacedEngine) -> Marks:
    """Return the labels by which the pods of an engine are found."""
    backend = backend_of(replica, engine)
    return backend.marks(replica, engine, backend.name(replica, engine))


def serving_labels(replica: ModelReplica) -> Mapping[str, str]:
    """Return the labels of the pods of a replica that take requests."""
    return marks_of(replica, replica.spec.engines[0]).serving
