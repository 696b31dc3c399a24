"""Manifests of an installation, in an order in which nothing needs later objects."""

from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.install import controller, gateway, monitoring, network, pods
from modelplane.install.definitions import definitions
from modelplane.install.identity import CONTROLLER, GATEWAY, namespace
from modelplane.install.options import Options
from modelplane.install.permissions import identity_permissions
from modelplane.kube.resources import Object


def manifests(options: Options) -> list[Object]:
    """Return every object of an installation, without an InferenceGateway: a platform team creates it."""
    return [
        *definitions(),
        namespace(),
        namespace(GATEWAY_NAMESPACE),
        pods.service_account(CONTROLLER, controller.COMPONENT),
        pods.service_account(GATEWAY, gateway.COMPONENT),
        *identity_permissions.installed(options.team_namespaces),
        *network.manifests(options),
        *monitoring.manifests(options),
        # The gateway first: the controllers announce its address.
        *gateway.manifests(options),
        *controller.manifests(options),
    ]
