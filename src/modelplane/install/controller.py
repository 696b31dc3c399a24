"""The controllers' Deployment: several processes, of which the holder of a Lease acts."""

from modelplane.install import pods
from modelplane.install.identity import CONTROLLER, GATEWAY
from modelplane.install.options import Options
from modelplane.kube.resources import Object

COMPONENT = "controller"
PORT = 8080
"""Address for health and metrics."""


def manifests(options: Options) -> list[Object]:
    """Return the manifests of the controllers, except their roles."""
    return [
        pods.metrics_service(CONTROLLER, COMPONENT, PORT),
        pods.disruption_budget(CONTROLLER, COMPONENT),
        _deployment(options),
    ]


def _deployment(options: Options) -> Object:
    arguments = (
        "controller",
        "--leader-elect",
        f"--gateway-service={GATEWAY}",
        "--credential-lifetime",
        options.credential_lifetime,
        f"--helm-dir={pods.CHARTS_PATH}",
        f"--metrics-address=0.0.0.0:{PORT}",
        "--log-format=json",
    )
    container = pods.container(COMPONENT, options.image, arguments, options.controller_resources)
    connected = pods.connected()
    container |= {
        "volumeMounts": [*connected["volumeMounts"], pods.charts_mount()],
        "ports": [{"name": pods.METRICS, "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": pods.probe("/readyz", pods.METRICS, period_s=5, failures=3),
        "livenessProbe": pods.probe("/healthz", pods.METRICS, period_s=10, failures=6),
    }
    pod = {"containers": [container], "volumes": [*pods.volumes(), pods.charts_volume()]}
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    return pods.deployment(CONTROLLER, COMPONENT, options.controllers, pod, strategy)
