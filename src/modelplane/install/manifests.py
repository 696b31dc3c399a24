"""Manifests of an installation, in an order in which nothing needs later objects."""

from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.install import (
    controller_deployment,
    deployment_pods,
    gateway_deployment,
    monitoring,
    network_policies,
)
from modelplane.install.definitions import definitions
from modelplane.install.installation_names import CONTROLLER, GATEWAY, namespace
from modelplane.install.installation_options import Options
from modelplane.install.permissions import identity_permissions
from modelplane.kube.resources import Object


def manifests(options: Options) -> list[Object]:
    """Return every object of an installation, without an InferenceGateway: a platform team creates it."""
    return [
        *definitions(),
        namespace(),
        namespace(GATEWAY_NAMESPACE),
        deployment_pods.service_account(CONTROLLER, controller_deployment.COMPONENT),
        deployment_pods.service_account(GATEWAY, gateway_deployment.COMPONENT),
        *identity_permissions.installed(options.team_namespaces),
        *network_policies.manifests(options),
        *monitoring.manifests(options),
        # The gateway first: the controllers announce its address.
        *gateway_deployment.manifests(options),
        *controller_deployment.manifests(options),
    ]
