"""Hydration of a ModelCache on a cluster: a volume, a token, and a Job that fills the volume.

The Job runs one constant program without a shell; values that differ between caches are in its environment.
The program downloads beside the volume's content, verifies every file against the hub's checksums, and only
then replaces the old files. So engines keep the weights that they have, and a program that died, or runs
again, does no harm.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.api.model_cache import CacheFiles, HuggingFace, ModelCache
from modelplane.api.names import MAX_LENGTH, child_name
from modelplane.cel import quantity
from modelplane.compose import pods
from modelplane.compose.cache_volume import MARKER, claim_name
from modelplane.compose.hydration_program import PROGRAM
from modelplane.compose.hydration_requirements import REQUIREMENTS
from modelplane.compose.images import HYDRATION

_USER = 65532
"""The user and group of the Job, which own no file of the image."""
_PATH = "/mnt/artifact"
_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of a variable
_HOPELESS = 65
"""Exit code of the program if a retry cannot help (``EX_DATAERR``)."""

_ATTEMPTS = 20
"""Number of retries of a failed download: with the Job's back-off, about an hour and a half."""


@dataclass(frozen=True, slots=True)
class Token:
    """The token of a private repository, as in the Secret on the control plane."""

    key: str
    encoded: str


def artifact(source: HuggingFace) -> str:
    """Return the hash of the staged content. It depends on the source, and not on the size."""
    only = [source.files] if source.files is CacheFiles.SAFETENSORS else []
    return _digest(["HuggingFace", source.repo, source.revision, *only])[:16]


def cache_label(cache: ModelCache) -> str:
    """Return the label value of a cache's objects on clusters; a label can be shorter than a name."""
    name = cache.metadata.name
    return name if len(name) <= MAX_LENGTH else child_name(name)


def volume(cache: ModelCache, size_gib: int, storage_class: str, existing: Object | None) -> Object:
    """Return the PersistentVolumeClaim, which can grow, but neither shrink nor change its class."""
    request = f"{size_gib}Gi"
    if existing is not None:
        spec = existing["spec"]
        storage_class = spec.get("storageClassName", storage_class)
        if shrinks(size_gib, existing):
            request = spec["resources"]["requests"]["storage"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(cache, claim_name(cache.metadata.namespace, cache.metadata.name)),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": request}},
        },
    }


def shrinks(size_gib: int, existing: Object) -> bool:
    """Return True if a volume is larger than requested."""
    present = existing["spec"].get("resources", {}).get("requests", {}).get("storage", "0")
    return quantity.parse(present) > quantity.parse(f"{size_gib}Gi")


def secret(cache: ModelCache, token: Token) -> Object:
    """Return the copy of the token for the Job."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(cache, _secret_name(cache)),
        "data": {token.key: token.encoded},
    }


def job(cache: ModelCache, source: HuggingFace, token: Token | None) -> Object:
    """Return the Job that fills the volume.

    A Job is immutable, so its name ends in a hash of everything that justifies a new attempt: the source, the
    program, the token, and the size of the volume.
    """
    spec = _job_spec(cache, source, token)
    attempt = _digest([spec, token.encoded if token else "", source.size_gib])[:8]
    name = child_name("modelcache", cache.metadata.namespace, cache.metadata.name, "hydrate", attempt)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(cache, name), "spec": spec}


def artifact_of(child: Object) -> str:
    """Return the artifact that a Job stages."""
    environment = child["spec"]["template"]["spec"]["containers"][0].get("env", ())
    return next((str(entry["value"]) for entry in environment if entry["name"] == "ARTIFACT"), "")


def last_word(attempts: Iterable[Object]) -> str:
    """Return the problem of the newest pod of a Job; empty if it has none."""
    by_age = sorted(attempts, key=_age)
    return pods.trouble(by_age[-1:])


def _age(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def _job_spec(cache: ModelCache, source: HuggingFace, token: Token | None) -> Object:
    return {
        "backoffLimit": _ATTEMPTS,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": "hydrate",
                        "operator": "In",
                        "values": [_HOPELESS],
                    },
                },
                # A pod that was lost with its node or preempted has not failed.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {
            "metadata": {"labels": {labels.MODEL_CACHE: cache_label(cache)}},
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
                "containers": [_container(cache, source, token)],
                "volumes": [
                    {
                        "name": "artifact",
                        "persistentVolumeClaim": {
                            "claimName": claim_name(cache.metadata.namespace, cache.metadata.name)
                        },
                    }
                ],
            },
        },
    }


def _container(cache: ModelCache, source: HuggingFace, token: Token | None) -> Object:
    return {
        "name": "hydrate",
        "image": HYDRATION.reference,
        "command": ["python", "-c", PROGRAM, _PATH, MARKER, REQUIREMENTS, str(_HOPELESS)],
        "env": _environment(cache, source, token),
        # The ModelCache reports the last line of the log as the cause of a failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "artifact", "mountPath": _PATH}],
    }


def _environment(cache: ModelCache, source: HuggingFace, token: Token | None) -> list[Object]:
    environment: list[Object] = [
        {"name": "REPO", "value": source.repo},
        *([{"name": "REVISION", "value": source.revision}] if source.revision else []),
        *([{"name": "FILES", "value": str(source.files)}] if source.files else []),
        {"name": "ARTIFACT", "value": artifact(source)},
        {"name": "HF_HOME", "value": "/tmp/huggingface"},  # noqa: S108 - in the container
        {"name": "HF_HUB_DISABLE_TELEMETRY", "value": "1"},
    ]
    if token is not None:
        reference = {"secretKeyRef": {"name": _secret_name(cache), "key": token.key}}
        environment.append({"name": _TOKEN, "valueFrom": reference})
    return environment


def _secret_name(cache: ModelCache) -> str:
    return child_name("modelcache", cache.metadata.namespace, cache.metadata.name, "auth")


def _metadata(cache: ModelCache, name: str) -> Object:
    return {
        "name": name,
        "namespace": cache.metadata.namespace,
        "labels": {labels.MODEL_CACHE: cache_label(cache)},
    }


def _digest(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
