"""Name by which a replica's engine knows its model, as an annotation of its ModelEndpoint.

The gateway writes it into a request whose service was chosen by the service's name, which no engine knows.
"""

from collections.abc import Mapping

from modelplane.api import labels
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.replica import engine_flags, engine_variables


def annotation(replica: ModelReplica) -> dict[str, str]:
    """Return the annotation with the name of the first engine whose command line tells it."""
    containers = (
        engine_variables.with_served_name(replica, member.template.spec.engine)
        for engine in replica.spec.engines
        for member in engine.members
    )
    named = next(filter(None, map(engine_flags.served_model, containers)), None)
    return {labels.SERVED_MODEL: named} if named else {}


def of(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation of an observed endpoint."""
    return {key: value for key, value in annotations.items() if key == labels.SERVED_MODEL}
