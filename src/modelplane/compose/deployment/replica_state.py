"""State of a replica during a rollout: whether it serves, drains, is being updated, or has a template."""

from collections.abc import Iterable, Mapping

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition as Type, ModelReplicaReason as Reason
from modelplane.api.fields.pods.engines import Serving
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import Engine, ReplicaTemplate
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cluster.reachability import find_reported_error
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of, holds


def list_replicas(observed: Mapping[str, Object]) -> dict[str, Object]:
    """Return the replicas among the children of a deployment, by key."""
    return {key: child for key, child in observed.items() if child["kind"] == kind_name(ModelReplica)}


def is_updating(replica: Object) -> bool:
    """Return True if a replica serves and its cluster has not applied the last edit yet."""
    return condition_of(replica, Type.MODEL_ACCEPTED).get("reason") == Reason.UPDATING


def is_draining(replica: Object | None) -> bool:
    """Return True if a replica is draining and takes no requests."""
    return replica is not None and bool(replica["spec"].get("draining"))


def is_surge(replica: Object | None) -> bool:
    """Return True if a rollout placed a replica in addition."""
    annotations = (replica or {}).get("metadata", {}).get("annotations") or {}
    return bool(annotations.get(labels.SURGE) == "true")


def serves(replica: Object) -> bool:
    """Return True if a replica is known to serve and takes requests."""
    return holds(replica, READY) and not is_draining(replica) and find_reported_error(replica) is None


def has_template(replica: Object, template: ReplicaTemplate) -> bool:
    """Return True if a replica has a template, wherever its pods are placed.

    A revision (``revisions.revision``) also differs by the device selectors, which choose the place.
    """
    spec = decode_as(ModelReplica, replica).spec
    serving = spec.serving or Serving()
    cache = spec.model_cache_ref.name if spec.model_cache_ref else ""
    own = (_shapes(spec.engines), cache, serving)
    return own == (_shapes(template.engines), template.model_cache_name or "", template.serving_settings)


def _shapes(engines: Iterable[Engine | PlacedEngine]) -> list[tuple[object, ...]]:
    return [
        (
            engine.name,
            engine.copies,
            engine.phase,
            [(member.role, member.worker, member.template) for member in engine.members],
        )
        for engine in engines
    ]


def same_spec(desired: ModelReplica, observed: Object) -> bool:
    """Return True if a replica has the desired spec."""
    # Decoded, because a server fills in the defaults.
    return desired.spec == decode_as(ModelReplica, observed).spec
