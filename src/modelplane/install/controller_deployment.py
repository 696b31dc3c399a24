"""The controllers' Deployment: several processes, of which the holder of a Lease acts."""

from collections.abc import Iterable

from modelplane.install import deployment_pods
from modelplane.install.installation_names import CONTROLLER, GATEWAY
from modelplane.install.installation_options import Options
from modelplane.kube.resources import Object

COMPONENT = "controller"
PORT = 8080
"""Address for health and metrics."""


def build_manifests(options: Options) -> list[Object]:
    """Return the manifests of the controllers, except their roles."""
    return [
        deployment_pods.build_metrics_service(CONTROLLER, COMPONENT, PORT),
        deployment_pods.build_disruption_budget(CONTROLLER, COMPONENT),
        _controllers(options),
    ]


def _controllers(options: Options) -> Object:
    arguments = (
        "controller",
        "--leader-elect",
        f"--gateway-service={GATEWAY}",
        "--credential-lifetime",
        options.credential_lifetime,
        f"--helm-dir={deployment_pods.CHARTS_PATH}",
    )
    return build_deployment(CONTROLLER, COMPONENT, options, arguments, runs_helm=True)


def build_deployment(
    name: str, component: str, options: Options, arguments: Iterable[str], *, runs_helm: bool = False
) -> Object:
    """Return a Deployment of controllers; ``arguments`` are those beside metrics and logs."""
    common = (f"--metrics-address=0.0.0.0:{PORT}", "--log-format=json")
    container = deployment_pods.build_container(
        component, options.image, (*arguments, *common), options.controller_resources
    )
    connected = deployment_pods.build_connection()
    mounts, volumes = (
        ([deployment_pods.build_charts_mount()], [deployment_pods.build_charts_volume()])
        if runs_helm
        else ([], [])
    )
    container |= {
        "volumeMounts": [*connected["volumeMounts"], *mounts],
        "ports": [{"name": deployment_pods.METRICS, "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": deployment_pods.probe("/readyz", deployment_pods.METRICS, period_s=5, failures=3),
        "livenessProbe": deployment_pods.probe("/healthz", deployment_pods.METRICS, period_s=10, failures=6),
    }
    pod = {"containers": [container], "volumes": [*deployment_pods.build_volumes(), *volumes]}
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    return deployment_pods.build_deployment(name, component, options.controllers, pod, strategy)
