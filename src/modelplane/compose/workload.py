"""A Standalone engine as Kubernetes runs it: a Deployment, and the devices that its pods claim.

What the user wrote in the member's template goes through unchanged. What is
added is what a served model needs and nobody wants to write: the pool that the
scheduler chose, probes, time to drain, and a rollout that needs no spare node.
"""

import hashlib
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.model_replica import ModelReplica, PlacedEngine, PlacedMember
from modelplane.api.names import child_name
from modelplane.compose.composition import Object

ENGINE_PORT = 8000
"""The port on which every engine serves HTTP, and answers ``/health`` once it can."""

_DRAIN_S = 5
"""How long a stopping engine still accepts requests, until no gateway sends it any."""

_GRACE_S = 120
"""How long a stopping engine may take in all, to finish what it has begun."""

_LOADING_S = 7200
"""How long an engine may take to load its weights before it is restarted."""


def claim_template(replica: ModelReplica, engine: PlacedEngine, member: PlacedMember) -> Object | None:
    """Return the ResourceClaimTemplate of a member's pods, or None where it claims nothing.

    A template cannot be changed, so its name ends in a hash of its content and a change is a new one.
    """
    if not member.device_requests:
        return None
    spec = {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": request.device_class_name,
                            "count": request.count,
                            "selectors": [
                                {"cel": {"expression": selector.cel}} for selector in request.selectors
                            ],
                        },
                    }
                    for request in member.device_requests
                ]
            }
        }
    }
    content = hashlib.sha256(msgspec.json.encode(spec)).hexdigest()[:8]
    name = child_name(replica.metadata.name, engine.name, member.role.lower(), "devices", content)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": replica.metadata.namespace},
        "spec": spec,
    }


def workload_name(replica: ModelReplica, engine: PlacedEngine) -> str:
    """Return the name of an engine's workload; never the replica's own, which is the Service's."""
    return child_name(replica.metadata.name, engine.name)


def deployment(
    replica: ModelReplica, engine: PlacedEngine, member: PlacedMember, claim: Object | None
) -> Object:
    """Return the Deployment of a Standalone engine."""
    name = workload_name(replica, engine)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": replica.metadata.namespace},
        "spec": {
            "replicas": engine.copies,
            "selector": {"matchLabels": {labels.WORKLOAD: name}},
            "progressDeadlineSeconds": _LOADING_S,
            # A pool has no spare node for a surge, so an old pod goes before its successor comes.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {"metadata": _pod_metadata(replica, member, name), "spec": _pod_spec(member, claim)},
        },
    }


def _pod_metadata(replica: ModelReplica, member: PlacedMember, workload: str) -> dict[str, Any]:
    own = {labels.SERVING: replica.metadata.name, labels.WORKLOAD: workload}
    metadata: dict[str, Any] = {"labels": {**member.template.metadata.labels, **own}}
    if member.template.metadata.annotations:
        metadata["annotations"] = dict(member.template.metadata.annotations)
    return metadata


def _pod_spec(member: PlacedMember, claim: Object | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "nodeSelector": {labels.POOL: member.node_pool_name},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": _GRACE_S,
        "containers": [_container(member, claim)],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }
    if claim is not None:
        spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": claim["metadata"]["name"]}]
    if member.template.spec.image_pull_secrets:
        spec["imagePullSecrets"] = msgspec.to_builtins(member.template.spec.image_pull_secrets)
    return spec


def _container(member: PlacedMember, claim: Object | None) -> dict[str, Any]:
    container: dict[str, Any] = msgspec.to_builtins(member.template.spec.containers[0])
    health = {"path": "/health", "port": ENGINE_PORT}
    container |= {
        "ports": [{"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "startupProbe": {"httpGet": health, "periodSeconds": 1, "failureThreshold": _LOADING_S},
        "readinessProbe": {"httpGet": health, "periodSeconds": 5, "timeoutSeconds": 5},
        # An engine under full load answers late; one that is stuck does not answer for a minute.
        "livenessProbe": {
            "httpGet": health,
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
        "lifecycle": {"preStop": {"sleep": {"seconds": _DRAIN_S}}},
        # The last lines of the log say why an engine ended; the ModelReplica repeats them.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 - a mount, not a file
    }
    if claim is not None:
        container["resources"] = {"claims": [{"name": "devices"}]}
    return container
