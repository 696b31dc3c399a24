"""Manifests of an installation, in an order in which nothing needs later objects."""

from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.install import controller_deployment, deployment_pods, gateway_deployment, network_policies
from modelplane.install.installation_names import (
    CONTROLLER,
    GATEWAY,
    INSTALLATION,
    PART_OF,
    build_labels,
    build_metadata,
    build_namespace,
)
from modelplane.install.installation_options import Options
from modelplane.install.permissions import identity_permissions
from modelplane.kube.resources import Object

KEPT = {"helm.sh/resource-policy": "keep"}
"""Makes Helm keep an object: deleting a definition would delete every object of its kind."""


def build_manifests(options: Options) -> list[Object]:
    """Return every object of an installation, without an InferenceGateway: a platform team creates it."""
    return [
        *build_definitions(),
        build_namespace(),
        build_namespace(GATEWAY_NAMESPACE),
        deployment_pods.build_service_account(CONTROLLER, controller_deployment.COMPONENT),
        deployment_pods.build_service_account(GATEWAY, gateway_deployment.COMPONENT),
        *identity_permissions.build_roles(options.team_namespaces),
        *network_policies.build_manifests(options),
        *build_service_monitors(options),
        # The gateway first: the controllers announce its address.
        *gateway_deployment.build_manifests(options),
        *controller_deployment.build_manifests(options),
    ]


def build_service_monitors(options: Options) -> list[Object]:
    """Return the monitor of every Service that has metrics, for the operator of Prometheus."""
    if not options.service_monitor:
        return []
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": build_metadata("modelplane"),
            "spec": {
                "selector": {"matchLabels": {PART_OF: INSTALLATION}},
                "endpoints": [{"port": deployment_pods.METRICS}],
            },
        }
    ]


def build_definitions() -> list[Object]:
    """Return the CustomResourceDefinitions of the kinds that the controllers compose.

    Objects of a kind that is not composed would have no effect, so such kinds are not installed. The Gateway
    API is not installed either: its routes are on inference clusters, where the gateway's own installation
    provides it.
    """
    return [_labelled(crd(kind)) for kind in COMPOSED]


def _labelled(definition: Object) -> Object:
    about = {**definition["metadata"], "labels": build_labels(), "annotations": dict(KEPT)}
    return {**definition, "metadata": about}
