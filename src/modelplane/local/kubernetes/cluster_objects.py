"""Objects that one of this machine's control planes needs to run models of a fleet.

The kinds of the Gateway API, what the controllers may do, the classes of this machine's devices and
volumes, and the gateway that this machine's Envoy serves.
"""

import importlib.resources
from collections.abc import Iterable
from typing import Final

import yaml

from modelplane.api import labels
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.controllers.gateway.gateway_controller import GATEWAY_CLASS
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.devices.local_device import DiscoveredDevice
from modelplane.kubelet.volumes import provisioning
from modelplane.local.kubernetes import machine_permissions
from modelplane.local.kubernetes.bulk_apply import apply_in_order, apply_together, wait_until_established
from modelplane.local.kubernetes.machine_permissions import CONTROLLERS

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


async def install(client: Client, workload_port: int, devices: Iterable[DiscoveredDevice]) -> None:
    """Make a control plane one that models can run on; doing it again changes nothing."""
    kinds = [*load_gateway_api(), *load_inference_extension()]
    await apply_in_order(client, machine_permissions.build_cluster_roles())
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
