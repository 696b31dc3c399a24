"""The gateway: Envoy, beside a process that writes what Envoy reads.

The two share only a volume: Envoy reads untrusted input and has no token. It is a sidecar container, so it
terminates after the process beside it, which waits until every request is answered.
"""

from modelplane.gateway.hosts import HTTP_PORT, HTTPS_PORT
from modelplane.gateway.usage.load import METRICS_PORT
from modelplane.install import deployment_pods
from modelplane.install.installation_names import GATEWAY, build_metadata, build_selector
from modelplane.install.installation_options import Options
from modelplane.kube.resources import Object

COMPONENT = "gateway"
ENVOY = "envoy"
"""Name of Envoy's container."""
PORT = 8080
"""Envoy's port in the pod."""

_HTTP = "http"
_SERVICE_PORTS = {_HTTP: HTTP_PORT, "https": HTTPS_PORT}
"""Both lead to Envoy, which takes either HTTP or TLS."""

_FILES = "envoy-files"
_DIRECTORY = "/gateway"
_MEMORY = "ENVOY_MEMORY_BYTES"

_GRACE_S = 330
"""Time for open requests to complete when a pod terminates."""


def build_manifests(options: Options) -> list[Object]:
    """Return the manifests of the gateway, except its role."""
    return [
        _service(options),
        deployment_pods.build_metrics_service(GATEWAY, COMPONENT, METRICS_PORT),
        deployment_pods.build_disruption_budget(GATEWAY, COMPONENT),
        _deployment(options),
    ]


def _service(options: Options) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(GATEWAY, COMPONENT) | {"annotations": options.gateway_annotations},
        "spec": {
            "type": str(options.gateway_service_type),
            "selector": build_selector(COMPONENT),
            "ports": [
                {"name": name, "port": port, "targetPort": _HTTP, "protocol": "TCP"}
                for name, port in _SERVICE_PORTS.items()
            ],
        },
    }


def _deployment(options: Options) -> Object:
    pod = {
        "terminationGracePeriodSeconds": _GRACE_S,
        "initContainers": [_envoy(options) | {"restartPolicy": "Always"}],
        "containers": [_writer(options)],
        "volumes": [{"name": _FILES, "emptyDir": {"sizeLimit": "1Gi"}}, *deployment_pods.build_volumes()],
    }
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    return deployment_pods.build_deployment(GATEWAY, COMPONENT, options.gateways, pod, strategy)


def _envoy(options: Options) -> Object:
    arguments = (
        "envoy",
        f"--dir={_DIRECTORY}",
        f"--port={PORT}",
        "--address=0.0.0.0",
        f"--memory-bytes=$({_MEMORY})",
    )
    limit = {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1"}}
    listens = {"tcpSocket": {"port": _HTTP}, "timeoutSeconds": 5}
    return deployment_pods.build_container(ENVOY, options.image, arguments, options.envoy_resources) | {
        "env": [{"name": _MEMORY, "valueFrom": limit}],
        "ports": [{"name": _HTTP, "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": listens | {"periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": listens | {"periodSeconds": 10, "failureThreshold": 6},
        "volumeMounts": [_mount()],
    }


def _writer(options: Options) -> Object:
    arguments = (
        "gateway",
        f"--dir={_DIRECTORY}",
        f"--port={PORT}",
        f"--metrics-address=0.0.0.0:{METRICS_PORT}",
        "--log-format=json",
    )
    container = deployment_pods.build_container(
        COMPONENT, options.image, arguments, options.gateway_resources
    )
    connected = deployment_pods.build_connection()
    return container | {
        "ports": [{"name": deployment_pods.METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "readinessProbe": deployment_pods.probe("/readyz", deployment_pods.METRICS, period_s=5, failures=3),
        "livenessProbe": deployment_pods.probe("/healthz", deployment_pods.METRICS, period_s=10, failures=6),
        "volumeMounts": [*connected["volumeMounts"], _mount()],
    }


def _mount() -> Object:
    return {"name": _FILES, "mountPath": _DIRECTORY}
