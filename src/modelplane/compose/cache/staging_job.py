"""Staging of a ModelCache on a cluster (phase Hydrating): a volume, credentials, and a Job that fills it.

The Job runs a constant program without a shell; values that differ between caches are in its environment.
The program downloads beside the volume's content, verifies every file against the source's checksums, and
only then replaces the old files. So engines keep the weights that they have, and a program that died, or runs
again, does no harm.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.api.model_cache import ModelCache
from modelplane.api.names import MAX_LENGTH, child_name
from modelplane.api.schema.untyped import get_map
from modelplane.api.values import quantity
from modelplane.compose.added_containers import HYDRATION
from modelplane.compose.cache.staging_sources import (
    HOPELESS,
    MEASURED,
    PATH,
    SOURCE_PATH,
    Source,
    hash_content,
    name_claim,
)
from modelplane.compose.replica import pod_problems

_USER = 65532
"""The user and group of the Job, which own no file of the image."""
_SOURCE = "source"
_BASE_S, _S_PER_GIB, _MAXIMUM_S = 6 * 3600, 120, 72 * 3600
"""Deadline of a download: 9 MB a second, and six hours; three days whatever size is claimed."""
_RETRIES = 20
"""Number of retries of a failed download: with the Job's back-off, about an hour and a half."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of the Secret that a source names, with their values as in the Secret on the control plane."""

    encoded: Mapping[str, str]


def format_cache_label(cache: ModelCache) -> str:
    """Return the label value of a cache's objects on clusters; a label can be shorter than a name."""
    name = cache.metadata.name
    return name if len(name) <= MAX_LENGTH else child_name(name)


def build_volume(cache: ModelCache, size_gib: int, storage_class: str, existing: Object | None) -> Object:
    """Return the PersistentVolumeClaim, which can grow, but neither shrink nor change its class."""
    request = f"{size_gib}Gi"
    if existing is not None:
        spec = existing["spec"]
        storage_class = spec.get("storageClassName", storage_class)
        if is_larger(size_gib, existing):
            request = spec["resources"]["requests"]["storage"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(cache, name_claim(cache.metadata.namespace, cache.metadata.name)),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": request}},
        },
    }


def is_larger(size_gib: int, existing: Object) -> bool:
    """Return True if a volume is larger than requested."""
    present = get_map(existing, "spec", "resources", "requests").get("storage", "0")
    return quantity.parse(present) > quantity.parse(f"{size_gib}Gi")


def build_secret(cache: ModelCache, credentials: Credentials) -> Object:
    """Return the copy of the credentials for the Job."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(cache, _secret_name(cache)),
        "data": dict(credentials.encoded),
    }


def build_job(cache: ModelCache, source: Source, credentials: Credentials | None) -> Object:
    """Return the Job that fills the volume.

    A Job is immutable, so its name ends in a hash of everything that justifies a new attempt: the source, the
    program, the credentials, and the size of the volume. For a source without a size, it measures the source.
    """
    spec = {
        "backoffLimit": _RETRIES,
        "activeDeadlineSeconds": min(_BASE_S + source.size_gib * _S_PER_GIB, _MAXIMUM_S),
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": "hydrate",
                        "operator": "In",
                        "values": [HOPELESS] if source.size_gib else [HOPELESS, MEASURED],
                    },
                },
                # A pod that was lost with its node or preempted has not failed.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {
            "metadata": {"labels": {labels.MODEL_CACHE: format_cache_label(cache)}},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": _USER,
                    "runAsGroup": _USER,
                    "fsGroup": _USER,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [_container(cache, source, credentials)],
                "volumes": list(_volumes(cache, source)),
            },
        },
    }
    values = ",".join(value for _, value in sorted(credentials.encoded.items())) if credentials else ""
    attempt = hash_content([spec, values, source.size_gib])[:8]
    name = child_name("modelcache", cache.metadata.namespace, cache.metadata.name, "hydrate", attempt)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(cache, name), "spec": spec}


def read_artifact(child: Object) -> str:
    """Return the artifact that a Job stages."""
    environment = child["spec"]["template"]["spec"]["containers"][0].get("env", ())
    return next((str(entry["value"]) for entry in environment if entry["name"] == "ARTIFACT"), "")


def describe_last_attempt(attempts: Iterable[Object]) -> str | None:
    """Return the problem of the newest pod of a Job; None if it has none."""
    return pod_problems.trouble(sorted(attempts, key=_age)[-1:])


def describe_earlier_attempt(attempts: Iterable[Object]) -> str:
    """Return how the attempt before the newest one ended, for a message; empty if it is the first."""
    trouble = pod_problems.trouble(sorted(attempts, key=_age)[-2:-1])
    return f"; previous attempt: {trouble}" if trouble else ""


def _age(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def _volumes(cache: ModelCache, source: Source) -> Iterator[Object]:
    if source.size_gib:
        claim = name_claim(cache.metadata.namespace, cache.metadata.name)
        yield {"name": "artifact", "persistentVolumeClaim": {"claimName": claim}}
    if source.claim:
        yield {"name": _SOURCE, "persistentVolumeClaim": {"claimName": source.claim, "readOnly": True}}


def _container(cache: ModelCache, source: Source, credentials: Credentials | None) -> Object:
    mounts: list[Object] = [{"name": "artifact", "mountPath": PATH}] if source.size_gib else []
    if source.claim:
        mounts.append({"name": _SOURCE, "mountPath": SOURCE_PATH, "readOnly": True})
    return {
        "name": "hydrate",
        "image": HYDRATION.reference,
        "command": list(source.command),
        "env": list(_environment(cache, source, credentials)),
        # The ModelCache reports the last line of the log as the cause of a failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }


def _environment(cache: ModelCache, source: Source, credentials: Credentials | None) -> Iterator[Object]:
    yield from ({"name": name, "value": value} for name, value in source.variables.items())
    if source.secret is None or credentials is None:
        return
    for variable, key in source.secret.keys.items():
        if key in credentials.encoded:
            yield {"name": variable, "valueFrom": {"secretKeyRef": {"name": _secret_name(cache), "key": key}}}


def _secret_name(cache: ModelCache) -> str:
    return child_name("modelcache", cache.metadata.namespace, cache.metadata.name, "auth")


def _metadata(cache: ModelCache, name: str) -> Object:
    return {
        "name": name,
        "namespace": cache.metadata.namespace,
        "labels": {labels.MODEL_CACHE: format_cache_label(cache)},
    }
