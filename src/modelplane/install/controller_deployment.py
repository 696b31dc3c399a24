"""The controllers of an installation: several processes, of which the holder of a Lease acts."""

from collections.abc import Iterable

from modelplane.install import pod_parts
from modelplane.install.installation_options import CONTROLLER, GATEWAY, Options
from modelplane.kube.resources import Object

CONTROLLER_COMPONENT = "controller"
CONTROLLER_PORT = 8080
"""Port for health and metrics."""

_CHARTS = "charts"
_CHARTS_PATH = "/var/cache/helm"
"""Directory of Helm's downloads during a run: indexes of repositories have tens of megabytes."""


def build_controllers(options: Options) -> list[Object]:
    """Return the manifests of the controllers, except their roles."""
    arguments = (
        "controller",
        "--leader-elect",
        f"--gateway-service={GATEWAY}",
        "--credential-lifetime",
        options.credential_lifetime,
        f"--helm-dir={_CHARTS_PATH}",
    )
    return [
        pod_parts.build_metrics_service(CONTROLLER, CONTROLLER_COMPONENT, CONTROLLER_PORT),
        pod_parts.build_disruption_budget(CONTROLLER, CONTROLLER_COMPONENT),
        build_controller_deployment(CONTROLLER, CONTROLLER_COMPONENT, options, arguments, runs_helm=True),
    ]


def build_controller_deployment(
    name: str, component: str, options: Options, arguments: Iterable[str], *, runs_helm: bool = False
) -> Object:
    """Return a Deployment of controllers; ``arguments`` are those beside metrics and logs."""
    common = (f"--metrics-address=0.0.0.0:{CONTROLLER_PORT}", "--log-format=json")
    mounts = [{"name": _CHARTS, "mountPath": _CHARTS_PATH}] if runs_helm else []
    volumes = [{"name": _CHARTS, "emptyDir": {"sizeLimit": "1Gi"}}] if runs_helm else []
    container = pod_parts.build_container(
        component, options.image, (*arguments, *common), options.controller_resources
    )
    container |= {
        "volumeMounts": [*pod_parts.build_mounts(), *mounts],
        "ports": [{"name": pod_parts.METRICS, "containerPort": CONTROLLER_PORT, "protocol": "TCP"}],
        "readinessProbe": pod_parts.probe("/readyz", pod_parts.METRICS, period_s=5, failures=3),
        "livenessProbe": pod_parts.probe("/healthz", pod_parts.METRICS, period_s=10, failures=6),
    }
    pod = {"containers": [container], "volumes": [*pod_parts.build_volumes(), *volumes]}
    return pod_parts.build_deployment(name, component, options.controllers, pod)
