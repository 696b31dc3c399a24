"""Manifests of an installation, in an order in which nothing needs later objects, and quotas of teams.

The numbers of quotas are those of ``examples/quotas``, which has the reason of each.
"""

from modelplane.api.meta import GATEWAY_NAMESPACE, GROUP
from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.install import (
    controller_deployment,
    gateway_deployment,
    identity_permissions,
    network_policies,
    pod_parts,
)
from modelplane.install.installation_options import (
    CONTROLLER,
    GATEWAY,
    INSTALLATION,
    PART_OF,
    Options,
    build_labels,
    build_metadata,
    build_namespace,
)
from modelplane.kube.resources import Object

_MOST = {
    "modeldeployments": 20,
    "modelreplicas": 60,
    "modelendpoints": 80,
    "modelservices": 20,
    "inferenceautoscalers": 20,
    "modelcaches": 5,
    "modelkeys": 100,
}


def build_quota(namespace: str) -> Object:
    """Return the ResourceQuota of a team's namespace."""
    hard = {f"count/{kind}.{GROUP}": f"{most}" for kind, most in _MOST.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "modelplane", "namespace": namespace},
        "spec": {"hard": {**hard, "count/secrets": "100", "count/configmaps": "100"}},
    }


KEPT = {"helm.sh/resource-policy": "keep"}
"""Makes Helm keep an object: deleting a definition would delete every object of its kind."""


def build_manifests(options: Options) -> list[Object]:
    """Return every object of an installation, without an InferenceGateway: a platform team creates it."""
    return [
        *build_definitions(),
        build_namespace(),
        build_namespace(GATEWAY_NAMESPACE),
        pod_parts.build_service_account(CONTROLLER, controller_deployment.CONTROLLER_COMPONENT),
        pod_parts.build_service_account(GATEWAY, gateway_deployment.GATEWAY_COMPONENT),
        *identity_permissions.build_roles(options.team_namespaces),
        *network_policies.build_manifests(options),
        *build_service_monitors(options),
        # The gateway first: the controllers announce its address.
        *gateway_deployment.build_gateway(options),
        *controller_deployment.build_controllers(options),
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
                "endpoints": [{"port": pod_parts.METRICS}],
            },
        }
    ]


def build_definitions() -> list[Object]:
    """Return the CustomResourceDefinitions of the kinds that the controllers compose.

    Objects of a kind that is not composed would have no effect, so such kinds are not installed. The Gateway
    API is not installed either: its routes are on inference clusters, where the gateway's own installation
    provides it.
    """
    added = {"labels": build_labels(), "annotations": dict(KEPT)}
    return [
        {**definition, "metadata": {**definition["metadata"], **added}} for definition in map(crd, COMPOSED)
    ]
