"""The gateway under Crossplane: Envoy's pods, and the process that publishes its configuration.

The objects are those of an installation. Crossplane owns them, so their label ``part-of`` has another value:
the removal of an installation, which selects its objects by that label, leaves them alone. Two rules. What
grants permissions is applied by an operator: Crossplane composes no role, and so needs no permission that it
would grant. And everything else is composed by the InferenceGateway.
"""

from typing import Any, Final

from modelplane.api.meta import GATEWAY_NAMESPACE, GROUP, SYSTEM_NAMESPACE
from modelplane.compose.gateway import envoy_pods
from modelplane.install import controller_deployment, gateway_deployment, network_policies, pod_parts, roles
from modelplane.install.installation_options import (
    CONTROLLER,
    GATEWAY,
    PART_OF,
    Options,
    build_labels,
    build_namespace,
)
from modelplane.install.roles import Role, Rule, build_account
from modelplane.kube.resources import Object

PUBLISHER: Final = "modelplane-gateway-controller"
"""The process that publishes the configuration: its Deployment, ServiceAccount and roles."""

COMPONENT: Final = "gateway-controller"

PART: Final = "modelplane-crossplane"
"""The value of ``part-of``."""

SECRETS: Final = "modelplane-gateway-secrets"
"""The role that reads the Secrets of providers' credentials and of certificates."""

_READ = ("list", "watch")

FLEET = (
    Rule(
        GROUP,
        ("inferencegateways", "modeldeployments", "modelendpoints", "modelkeys", "modelservices"),
        _READ,
        "Routes, region rules, keys and names of models are made from copies of these objects. None is "
        "written.",
    ),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "The owner of the kinds: nothing is published unless Crossplane owns them.",
    ),
)
"""In all namespaces."""

NAMED = (
    Rule(
        "",
        ("secrets",),
        _READ,
        "Endpoints name the credentials of providers, and the InferenceGateway names certificates. Each is "
        "asked for by namespace and name, which a role cannot say.",
    ),
)
"""In all namespaces, or in those of teams with providers and in the system's."""

SYSTEM = (
    Rule("coordination.k8s.io", ("leases",), ("create",), "The first of several processes makes the Lease."),
    Rule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "patch"),
        "The holder of the Lease publishes. It is the controllers', so that only one of the two does.",
        names=(CONTROLLER,),
    ),
    *roles.PODS,
    Rule(
        "",
        ("configmaps",),
        (*_READ, "create", "patch", "delete"),
        "The gateway's configuration and its state. Its parts are named for their content, so no role can "
        "name them.",
    ),
)
"""In the namespace of the installation."""


def build_children(options: Options) -> dict[str, Object]:
    """Return the objects that the InferenceGateway composes, by key."""
    arguments = ("controller", "--only=gateway", "--leader-elect", f"--gateway-service={GATEWAY}")
    written = [
        pod_parts.build_service_account(GATEWAY, gateway_deployment.GATEWAY_COMPONENT),
        pod_parts.build_service_account(PUBLISHER, COMPONENT),
        *network_policies.build_manifests(options),
        *gateway_deployment.build_gateway(options),
        pod_parts.build_metrics_service(PUBLISHER, COMPONENT, controller_deployment.CONTROLLER_PORT),
        pod_parts.build_disruption_budget(PUBLISHER, COMPONENT),
        controller_deployment.build_controller_deployment(PUBLISHER, COMPONENT, options, arguments),
    ]
    return {_key(manifest): _of_crossplane(manifest) for manifest in written}


def _key(manifest: Object) -> str:
    """Return the key of an object: the two Deployments and the Service have one that compositions name."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    keys = {
        ("Service", GATEWAY): envoy_pods.SERVICE,
        ("Deployment", GATEWAY): envoy_pods.DEPLOYMENT,
        ("Deployment", PUBLISHER): envoy_pods.PUBLISHER,
    }
    return keys.get((kind, name), f"{envoy_pods.PREFIX}{kind.lower()}-{name}")


def build_permissions() -> list[Object]:
    """Return what an operator applies: the namespace of the gateway's Secrets, and the roles, bound."""
    publisher, own = build_account(PUBLISHER), build_labels(COMPONENT)
    written = [
        build_namespace(GATEWAY_NAMESPACE),
        *Role("ClusterRole", PUBLISHER, FLEET, own).bound_to(publisher),
        *Role("ClusterRole", SECRETS, NAMED, own).bound_to(publisher),
        *Role("Role", PUBLISHER, SYSTEM, own).bound_to(publisher, SYSTEM_NAMESPACE),
        *Role("Role", f"{PUBLISHER}-private", roles.PUBLISHER, own).bound_to(publisher, GATEWAY_NAMESPACE),
        *roles.build_gateway_roles(),
    ]
    return [_of_crossplane(manifest) for manifest in written]


def _of_crossplane(value: Any) -> Any:
    """Return a manifest, or a part of one, with the label ``part-of`` of Crossplane's objects."""
    if isinstance(value, dict):
        return {key: PART if key == PART_OF else _of_crossplane(part) for key, part in value.items()}
    return [_of_crossplane(item) for item in value] if isinstance(value, list | tuple) else value
