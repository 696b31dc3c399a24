"""The gateway of an installation: the Deployment of Envoy beside a process that writes what Envoy reads.

The two share only a volume: Envoy reads untrusted input and has no token. It is a sidecar container, so it
terminates after the process beside it, which waits until every request is answered.
"""

from modelplane.gateway.hosts import HTTP_PORT, HTTPS_PORT
from modelplane.gateway.usage.load import METRICS_PORT
from modelplane.install import pod_parts
from modelplane.install.installation_options import GATEWAY, Options, build_metadata, build_selector
from modelplane.kube.resources import Object

GATEWAY_COMPONENT = "gateway"
ENVOY = "envoy"
"""Name of Envoy's container."""
GATEWAY_PORT = 8080
"""Envoy's port in the pod."""

_HTTP = "http"
_SERVICE_PORTS = {_HTTP: HTTP_PORT, "https": HTTPS_PORT}
"""Both lead to Envoy, which takes either HTTP or TLS."""

_FILES = "envoy-files"
_DIRECTORY = "/gateway"
_MEMORY = "ENVOY_MEMORY_BYTES"

_GRACE_S = 330
"""Time for open requests to complete when a pod terminates."""


def build_gateway(options: Options) -> list[Object]:
    """Return the manifests of the gateway, except its role."""
    pod = {
        "terminationGracePeriodSeconds": _GRACE_S,
        "initContainers": [_envoy(options) | {"restartPolicy": "Always"}],
        "containers": [_writer(options)],
        "volumes": [{"name": _FILES, "emptyDir": {"sizeLimit": "1Gi"}}, *pod_parts.build_volumes()],
    }
    return [
        _service(options),
        pod_parts.build_metrics_service(GATEWAY, GATEWAY_COMPONENT, METRICS_PORT),
        pod_parts.build_disruption_budget(GATEWAY, GATEWAY_COMPONENT),
        pod_parts.build_deployment(GATEWAY, GATEWAY_COMPONENT, options.gateways, pod),
    ]


def _service(options: Options) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(GATEWAY, GATEWAY_COMPONENT) | {"annotations": options.gateway_annotations},
        "spec": {
            "type": str(options.gateway_service_type),
            "selector": build_selector(GATEWAY_COMPONENT),
            "ports": [
                {"name": name, "port": port, "targetPort": _HTTP, "protocol": "TCP"}
                for name, port in _SERVICE_PORTS.items()
            ],
        },
    }


def _envoy(options: Options) -> Object:
    arguments = (
        "envoy",
        f"--dir={_DIRECTORY}",
        f"--port={GATEWAY_PORT}",
        "--address=0.0.0.0",
        f"--memory-bytes=$({_MEMORY})",
    )
    limit = {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1"}}
    listens = {"tcpSocket": {"port": _HTTP}, "timeoutSeconds": 5}
    return pod_parts.build_container(ENVOY, options.image, arguments, options.envoy_resources) | {
        "env": [{"name": _MEMORY, "valueFrom": limit}],
        "ports": [{"name": _HTTP, "containerPort": GATEWAY_PORT, "protocol": "TCP"}],
        "readinessProbe": listens | {"periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": listens | {"periodSeconds": 10, "failureThreshold": 6},
        "volumeMounts": [_mount()],
    }


def _writer(options: Options) -> Object:
    arguments = (
        "gateway",
        f"--dir={_DIRECTORY}",
        f"--port={GATEWAY_PORT}",
        f"--metrics-address=0.0.0.0:{METRICS_PORT}",
        "--log-format=json",
    )
    return pod_parts.build_container(
        GATEWAY_COMPONENT, options.image, arguments, options.gateway_resources
    ) | {
        "ports": [{"name": pod_parts.METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "readinessProbe": pod_parts.probe("/readyz", pod_parts.METRICS, period_s=5, failures=3),
        "livenessProbe": pod_parts.probe("/healthz", pod_parts.METRICS, period_s=10, failures=6),
        "volumeMounts": [*pod_parts.build_mounts(), _mount()],
    }


def _mount() -> Object:
    return {"name": _FILES, "mountPath": _DIRECTORY}
