"""The ModelEndpoint of a replica: its labels and annotations, and edits of the existing endpoint."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.untyped import get_map
from modelplane.compose.replica import engine_command_lines, engine_variables


def list_shared_labels(own: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the labels that an endpoint shares with its replica: those that services select by."""
    for key, value in own.items():
        of_users = not key.startswith((labels.PREFIX, labels.CROSSPLANE_PREFIX))
        if of_users or key in (labels.DEPLOYMENT, labels.CLUSTER, labels.REPLICA_INDEX):
            yield key, value


def build_annotations(replica: ModelReplica) -> dict[str, str]:
    """Return the annotations of an endpoint: the name of its model, and its share of a canary's requests."""
    share = replica.metadata.annotations.get(labels.CANARY_WEIGHT)
    # Written even if empty.
    return {**_annotate_served_model(replica), **({} if share is None else {labels.CANARY_WEIGHT: share})}


def mark_draining(endpoint: Object) -> Object:
    """Return an existing endpoint, marked as draining."""
    return _rebuild(endpoint, {labels.DRAINING: "true"}, endpoint["spec"])


def mark_not_serving(endpoint: Object) -> Object:
    """Return an existing endpoint, marked as one whose replica does not serve."""
    return _rebuild(endpoint, {labels.DRAINING: labels.NOT_SERVING}, endpoint["spec"])


def is_placeholder(endpoint: Object) -> bool:
    """Return True if the replica of an endpoint does not serve, so that services do not route to it."""
    return bool(get_map(endpoint, "metadata", "annotations").get(labels.DRAINING) == labels.NOT_SERVING)


def set_region(endpoint: Object, region: str) -> Object:
    """Return an existing endpoint in another region; an empty one removes it."""
    spec = {key: value for key, value in endpoint.get("spec", {}).items() if key != "region"}
    return _rebuild(endpoint, {}, {**spec, **({"region": region} if region else {})})


def _rebuild(endpoint: Object, build_annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Object:
    metadata = endpoint["metadata"]
    known = metadata.get("annotations", {})
    kept = {key: known[key] for key in (labels.SERVED_MODEL, labels.CANARY_WEIGHT) if key in known}
    return {
        "apiVersion": API_VERSION,
        "kind": kind_name(ModelEndpoint),
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": dict(list_shared_labels(metadata.get("labels", {}))),
            "annotations": {**kept, **build_annotations},
        },
        "spec": spec,
    }


def _annotate_served_model(replica: ModelReplica) -> dict[str, str]:
    """Return the annotation with the name by which the first engine with such a flag knows its model.

    The gateway writes it into a request that names the service, which no engine knows.
    """
    containers = (
        engine_variables.with_served_name(replica, member.template.spec.engine)
        for engine in replica.spec.engines
        for member in engine.members
    )
    named = next(filter(None, map(engine_command_lines.served_model, containers)), None)
    return {labels.SERVED_MODEL: named} if named else {}
