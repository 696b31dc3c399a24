"""Objects that one of this machine's control planes needs to run models of a fleet, and how they are applied.

The kinds of the Gateway API, the permissions of controllers and nodes (those of any cluster, and the local
ones), the classes of this machine's devices and volumes, and the gateway that this machine's Envoy serves.
"""

import asyncio
import importlib.resources
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

import yaml

from modelplane.api import labels
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.compose.readiness import is_true
from modelplane.controllers.gateway.gateway_controller import GATEWAY_CLASS
from modelplane.install.identity_permissions import (
    INFERENCE_CLUSTER,
    SYSTEM,
    TEAMS,
    list_cluster_rules,
    list_control_plane_rules,
    list_copy_rules,
)
from modelplane.install.roles import Role, Rule
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.local_devices import DiscoveredDevice
from modelplane.kubelet.volumes import provisioning

CONTROLLERS = "modelplane:controllers"
"""The group of the controllers' identity."""

OWN_GATEWAY = (
    Rule(
        "gateway.networking.k8s.io",
        ("gateways/status",),
        ("patch",),
        "This machine's Envoy is its gateway, and no other controller reports its address.",
    ),
    Rule(
        "discovery.k8s.io",
        ("endpointslices",),
        ("list", "watch"),
        "The gateway sends requests directly to the pods that serve.",
    ),
)

_NODE = (
    Rule("", ("persistentvolumeclaims",), ("list", "watch"), "A node creates the volumes of claims."),
    Rule(
        "",
        ("persistentvolumeclaims/status",),
        ("patch",),
        "The node reports the new size of a claim that grew.",
    ),
    Rule(
        "apps",
        ("deployments", "replicasets"),
        ("get",),
        "The node runs some programs only for pods that the controllers composed, which their owners show.",
    ),
    Rule("batch", ("jobs",), ("get",), "As for Deployments: a Job fills the volume of a ModelCache."),
    Rule(
        "",
        ("persistentvolumes",),
        ("list", "watch", "create", "patch", "delete"),
        "Volumes are folders of a node, and only the node knows when one is removed.",
    ),
)
"""Permissions of a node, beyond those of the API server's Node authorizer."""

_NODES = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
_GROUP = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CONTROLLERS}
_NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
# The one in C is ten times as fast, and not in every build of the library.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_ADMISSION = "admissionregistration.k8s.io/v1"
_WORKLOAD_POLICY: Final = "modelplane-workloads"
_WRITERS: Final = (
    CONTROLLERS,
    "system:masters",
    # Kubernetes' own controllers, and those of a fleet that has registered this machine as its cluster.
    "system:serviceaccounts:kube-system",
    f"system:serviceaccounts:{SYSTEM_NAMESPACE}",
)
"""Groups of the identities that may."""


async def install_cluster(client: Client, workload_port: int, devices: Iterable[DiscoveredDevice]) -> None:
    """Make a control plane one that models can run on; doing it again changes nothing."""
    kinds = [*load_gateway_api(), *load_inference_extension()]
    await apply_in_order(client, build_cluster_roles())
    await apply_together(client, [*kinds, *build_workload_policy()])
    await wait_until_established(client, [kind["metadata"]["name"] for kind in kinds])
    manifests = [
        *build_device_classes(devices),
        *provisioning.build_storage_classes(),
        *build_gateway(workload_port),
    ]
    await apply_together(client, manifests)


def load_gateway_api() -> list[Object]:
    """Return the CustomResourceDefinitions of the Gateway API that replicas' routes need."""
    return _definitions("gateway-api")


def load_inference_extension() -> list[Object]:
    """Return the CustomResourceDefinition of InferencePools, which replicas with an endpoint picker need."""
    return _definitions("inference-extension")


def _definitions(bundle: str) -> list[Object]:
    folder = importlib.resources.files("modelplane.local") / "crds" / bundle
    return [
        yaml.load(file.read_bytes(), _LOADER)  # noqa: S506 - a safe loader, whichever of the two
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    ]


def build_device_classes(devices: Iterable[DiscoveredDevice]) -> list[Object]:
    """Return the DeviceClasses by which pods claim devices, one for each driver."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": driver},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
        }
        for driver in sorted({device.driver for device in devices})
    ]


def build_gateway(port: int) -> list[Object]:
    """Return the gateway through which a cluster's replicas are reached."""
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": GATEWAY_CLASS},
            "spec": {"controllerName": "modelplane.ai/envoy"},
        },
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": GATEWAY_NAME, "namespace": SYSTEM_NAMESPACE},
            "spec": {
                "gatewayClassName": GATEWAY_CLASS,
                "listeners": [
                    {
                        "name": "http",
                        "port": port,
                        "protocol": "HTTP",
                        "allowedRoutes": {"namespaces": {"from": "All"}},
                    }
                ],
            },
        },
    ]


def build_workload_policy() -> list[Object]:
    """Return the admission policy for workloads that have Modelplane's label, and its binding.

    The node agent runs some programs only for pods that the controllers composed, and knows those by the
    label of their workload. A role cannot limit a label, so the API server checks it.
    """
    ours = f"{{}}.metadata.?labels[?'{labels.MANAGED_BY}'].orValue('') == 'modelplane'"
    is_one = f"{ours.format('object')} || (oldObject != null && {ours.format('oldObject')})"
    is_writer = f"request.userInfo.?groups.orValue([]).exists(group, group in {list(_WRITERS)})"
    return [
        {
            "apiVersion": _ADMISSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": _WORKLOAD_POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["apps", "batch"],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["deployments", "jobs", "replicasets"],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": f"!({is_one}) || {is_writer}",
                        "message": f"only Modelplane writes a workload with the label {labels.MANAGED_BY}="
                        "modelplane: change the object that the workload is made for, or remove the label",
                        "reason": "Forbidden",
                    }
                ],
            },
        },
        {
            "apiVersion": _ADMISSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _WORKLOAD_POLICY},
            "spec": {"policyName": _WORKLOAD_POLICY, "validationActions": ["Deny"]},
        },
    ]


def build_manifests() -> list[Object]:
    """Return the manifests for a control plane that is its own only cluster."""
    return [*build_fleet_roles(), *build_cluster_roles()[1:]]


def build_fleet_roles() -> list[Object]:
    """Return the system namespace, and the roles of the controllers on the fleet's own control plane."""
    return [
        _NAMESPACE,
        *Role("ClusterRole", "modelplane-controller", list_control_plane_rules() + TEAMS, {}).bound_to(
            _GROUP
        ),
        *Role("Role", "modelplane-controller", SYSTEM, {}).bound_to(_GROUP, SYSTEM_NAMESPACE),
    ]


def build_cluster_roles() -> list[Object]:
    """Return the system namespace, and the roles of controllers and node on a cluster that runs models."""
    rules = (*list_cluster_rules(), *list_copy_rules(), *OWN_GATEWAY)
    return [
        _NAMESPACE,
        *Role("ClusterRole", INFERENCE_CLUSTER, rules, {}).bound_to(_GROUP),
        *Role("ClusterRole", "modelplane-node", _NODE, {}).bound_to(_NODES),
    ]


async def apply_in_order(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply manifests one after the other."""
    for manifest in manifests:
        await client.apply(manifest)


async def apply_together(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply manifests that do not need one another."""
    room = asyncio.Semaphore(4)

    async def apply(manifest: Mapping[str, Any]) -> None:
        async with room:
            await client.apply(manifest)

    await gather_all(apply(manifest) for manifest in manifests)


async def gather_all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do everything at once; raise the first failure once nothing is under way any more."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def wait_until_established(client: Client, names: list[str]) -> None:
    """Return once the API server serves every named CustomResourceDefinition."""
    async with asyncio.timeout(30.0):
        # One by one: a list of all has megabytes of schemas, each time.
        for name in names:
            while not (
                (kind := await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name))
                and is_true(kind, "Established")
            ):
                await asyncio.sleep(0.05)
