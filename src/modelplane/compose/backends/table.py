"""The table of backends: which one runs an engine, and the names that follow."""

from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.names import DIGITS, child_name
from modelplane.compose.backends.backend import Backend
from modelplane.compose.backends.gang import GANG
from modelplane.compose.backends.standalone import STANDALONE

BACKENDS: tuple[Backend, ...] = (
    STANDALONE,
    GANG,
)
"""Every backend. The first one that runs an engine has it."""


def backend_of(engine: PlacedEngine) -> Backend:
    """Return the backend of an engine."""
    return next(backend for backend in BACKENDS if backend.runs(engine))


def workload_keys(engine: PlacedEngine) -> tuple[str, ...]:
    """Return the key of an engine's workload, then those that it would have with each other backend."""
    own = backend_of(engine)
    return own.key(engine), *(each.key(engine) for each in BACKENDS if each is not own)


def workload_key(engine: PlacedEngine) -> str:
    """Return the key of an engine's workload. Another backend is another child."""
    return backend_of(engine).key(engine)


def workload_name(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the name of an engine's workload; never the replica's own, which is the Service's."""
    name, most = child_name(replica.metadata.name, engine.name), backend_of(engine).name_length
    if len(name) <= most:
        return name
    suffix = name[-DIGITS - 1 :]
    return name[: most - len(suffix)].rstrip("-") + suffix
