"""Deployments of an installation: the controllers, and the gateway.

The controllers are several processes, of which the holder of a Lease acts. The gateway is Envoy, beside a
process that writes what Envoy reads.

The two share only a volume: Envoy reads untrusted input and has no token. It is a sidecar container, so it
terminates after the process beside it, which waits until every request is answered.

They meet the restricted Pod Security Standard: no root, no privileges, nothing written but to volumes of
their own. A pod gets its account's token in the one container that needs it.
"""

from collections.abc import Iterable, Iterator, Mapping

from modelplane.gateway.hosts import HTTP_PORT, HTTPS_PORT
from modelplane.gateway.usage.load import METRICS_PORT
from modelplane.install.installation_options import (
    CONTROLLER,
    GATEWAY,
    Number,
    Options,
    build_labels,
    build_metadata,
    build_selector,
)
from modelplane.kube.resources import Object

_USER = 65532
_TOKEN_LASTS_S = 3607
"""As long as the token that Kubernetes itself would mount."""

_ACCOUNT = "account"
_SCRATCH = "scratch"
_CHARTS = "charts"

CHARTS_PATH = "/var/cache/helm"
"""Directory of Helm's downloads during a run: indexes of repositories have tens of megabytes."""

METRICS = "metrics"
"""The name of the port for health and metrics."""


def build_deployment(
    name: str, component: str, replicas: Number, pod: Object, strategy: Mapping[str, object]
) -> Object:
    """Return a Deployment of pods that are spread over nodes and zones."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(name, component),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": build_selector(component)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": dict(strategy)},
            "template": {
                "metadata": {"labels": build_labels(component)},
                "spec": _common(name, component) | pod,
            },
        },
    }


def _common(name: str, component: str) -> Object:
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    _apart(component, "kubernetes.io/hostname", 100),
                    _apart(component, "topology.kubernetes.io/zone", 50),
                ]
            }
        },
    }


def _apart(component: str, topology: str, weight: int) -> Object:
    chosen = {"matchLabels": build_selector(component)}
    return {"weight": weight, "podAffinityTerm": {"labelSelector": chosen, "topologyKey": topology}}


def build_container(name: str, image: str, arguments: Iterable[str], resources: object) -> Object:
    """Return a container of the one image, without any privilege."""
    return {
        "name": name,
        "image": image,
        "args": [*arguments],
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def list_containers(item: Object) -> Iterator[Object]:
    """Yield the containers of an object's pods, if it has any."""
    pod = item.get("spec", {}).get("template", {}).get("spec", {})
    yield from (*pod.get("initContainers", ()), *pod.get("containers", ()))


def build_connection() -> Object:
    """Return the part of a container that speaks to API servers: the account, and room for certificates."""
    return {
        "volumeMounts": [
            {
                "name": _ACCOUNT,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": True,
            },
            {"name": _SCRATCH, "mountPath": "/tmp"},  # noqa: S108 - the container's own
        ]
    }


def build_volumes() -> list[Object]:
    """Return the volumes of pods with a connected container."""
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_LASTS_S}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {
            "name": _ACCOUNT,
            "projected": {"sources": [token, authority, {"downwardAPI": {"items": [namespace]}}]},
        },
        # Client certificates of kubeconfigs pass through files, so these never reach a disk.
        {"name": _SCRATCH, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]


def build_charts_mount() -> Object:
    """Return the mount of the volume for Helm's downloads."""
    return {"name": _CHARTS, "mountPath": CHARTS_PATH}


def build_charts_volume() -> Object:
    """Return the volume for Helm's downloads, on disk."""
    return {"name": _CHARTS, "emptyDir": {"sizeLimit": "1Gi"}}


def probe(path: str, port: str, period_s: int, failures: int) -> Object:
    """Return a probe over HTTP."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def build_disruption_budget(name: str, component: str) -> Object:
    """Return the budget that keeps a drain from evicting all pods at once."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": build_metadata(name, component),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": build_selector(component)},
            # The budget protects requests, and an unhealthy pod serves none.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def build_service_account(name: str, component: str) -> Object:
    """Return an account whose token is not mounted automatically."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": build_metadata(name, component),
        "automountServiceAccountToken": False,
    }


def build_metrics_service(name: str, component: str, port: int) -> Object:
    """Return a Service by which Prometheus finds every pod of a component."""
    about = build_metadata(f"{name}-metrics", component)
    about["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port),
        "prometheus.io/path": "/metrics",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about,
        "spec": {
            "clusterIP": "None",
            "selector": build_selector(component),
            "ports": [{"name": METRICS, "port": port, "targetPort": METRICS, "protocol": "TCP"}],
        },
    }


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
    return [
        _service(options),
        build_metrics_service(GATEWAY, GATEWAY_COMPONENT, METRICS_PORT),
        build_disruption_budget(GATEWAY, GATEWAY_COMPONENT),
        _deployment(options),
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


def _deployment(options: Options) -> Object:
    pod = {
        "terminationGracePeriodSeconds": _GRACE_S,
        "initContainers": [_envoy(options) | {"restartPolicy": "Always"}],
        "containers": [_writer(options)],
        "volumes": [{"name": _FILES, "emptyDir": {"sizeLimit": "1Gi"}}, *build_volumes()],
    }
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    return build_deployment(GATEWAY, GATEWAY_COMPONENT, options.gateways, pod, strategy)


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
    return build_container(ENVOY, options.image, arguments, options.envoy_resources) | {
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
    container = build_container(GATEWAY_COMPONENT, options.image, arguments, options.gateway_resources)
    connected = build_connection()
    return container | {
        "ports": [{"name": METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"}],
        "readinessProbe": probe("/readyz", METRICS, period_s=5, failures=3),
        "livenessProbe": probe("/healthz", METRICS, period_s=10, failures=6),
        "volumeMounts": [*connected["volumeMounts"], _mount()],
    }


def _mount() -> Object:
    return {"name": _FILES, "mountPath": _DIRECTORY}


CONTROLLER_COMPONENT = "controller"
CONTROLLER_PORT = 8080
"""Port for health and metrics."""


def build_controllers(options: Options) -> list[Object]:
    """Return the manifests of the controllers, except their roles."""
    return [
        build_metrics_service(CONTROLLER, CONTROLLER_COMPONENT, CONTROLLER_PORT),
        build_disruption_budget(CONTROLLER, CONTROLLER_COMPONENT),
        _controllers(options),
    ]


def _controllers(options: Options) -> Object:
    arguments = (
        "controller",
        "--leader-elect",
        f"--gateway-service={GATEWAY}",
        "--credential-lifetime",
        options.credential_lifetime,
        f"--helm-dir={CHARTS_PATH}",
    )
    return build_controller_deployment(CONTROLLER, CONTROLLER_COMPONENT, options, arguments, runs_helm=True)


def build_controller_deployment(
    name: str, component: str, options: Options, arguments: Iterable[str], *, runs_helm: bool = False
) -> Object:
    """Return a Deployment of controllers; ``arguments`` are those beside metrics and logs."""
    common = (f"--metrics-address=0.0.0.0:{CONTROLLER_PORT}", "--log-format=json")
    container = build_container(component, options.image, (*arguments, *common), options.controller_resources)
    connected = build_connection()
    mounts, volumes = ([build_charts_mount()], [build_charts_volume()]) if runs_helm else ([], [])
    container |= {
        "volumeMounts": [*connected["volumeMounts"], *mounts],
        "ports": [{"name": METRICS, "containerPort": CONTROLLER_PORT, "protocol": "TCP"}],
        "readinessProbe": probe("/readyz", METRICS, period_s=5, failures=3),
        "livenessProbe": probe("/healthz", METRICS, period_s=10, failures=6),
    }
    pod = {"containers": [container], "volumes": [*build_volumes(), *volumes]}
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    return build_deployment(name, component, options.controllers, pod, strategy)
