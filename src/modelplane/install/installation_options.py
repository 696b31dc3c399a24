"""Options of an installation, and the names and labels of its parts; everything else is the same everywhere.

The defaults are those of ``modelplane install`` and of the chart. A chart has placeholders for values, so a
number may be a text here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from modelplane import __version__
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.kube.resources import Object

CONTROLLER = "modelplane-controller"
"""The controllers: their Deployment, ServiceAccount, roles and Lease."""

GATEWAY = "modelplane-gateway"
"""The gateway: its Deployment, ServiceAccount, role and Service."""

PART_OF = "app.kubernetes.io/part-of"
VERSION = "app.kubernetes.io/version"
MANAGED_BY = "app.kubernetes.io/managed-by"

INSTALLATION = "modelplane"
"""The value of ``part-of`` on everything that an installation consists of, and on nothing else."""

MANAGER = "modelplane"
"""The value of ``managed-by`` where no other tool has put its own there."""


def build_selector(component: str) -> dict[str, str]:
    """Return the labels that select the pods of a component."""
    return {"app.kubernetes.io/name": "modelplane", "app.kubernetes.io/component": component}


def build_labels(component: str = "") -> dict[str, str]:
    """Return the labels of an object of the installation, and of one component where one is named."""
    selected = build_selector(component) if component else {"app.kubernetes.io/name": "modelplane"}
    return {**selected, PART_OF: INSTALLATION, VERSION: __version__, MANAGED_BY: MANAGER}


def build_metadata(name: str, component: str = "", *, namespaced: bool = True) -> Object:
    """Return the metadata of an object of the installation."""
    where = {"namespace": SYSTEM_NAMESPACE} if namespaced else {}
    return {"name": name, **where, "labels": build_labels(component)}


def build_namespace(name: str = SYSTEM_NAMESPACE) -> Object:
    """Return a namespace of the installation; a cluster that is registered with a fleet has the first."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": build_metadata(name, namespaced=False)}


CREDENTIAL_LIFETIME = "720h"
"""30 days."""

IS_PUBLISHED: Final = False
"""True once a release has pushed its image, which `modelplane install` then runs by default."""

Number = int | str
Block = Mapping[str, object] | str


class ServiceType(StrEnum):
    """Type of the gateway's Service (``Service.spec.type``)."""

    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    CLUSTER_IP = "ClusterIP"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an installation."""

    image: str = f"ghcr.io/modelplane/modelplane:{__version__}"
    controllers: Number = 2
    gateways: Number = 2
    gateway_service_type: str = ServiceType.LOAD_BALANCER
    gateway_annotations: Block = field(default_factory=dict)
    """Annotations of the gateway's Service, for example for an internal load balancer."""
    team_namespaces: tuple[str, ...] = ()
    """Namespaces whose Secrets and ConfigMaps may be read for models; all if empty."""
    credential_lifetime: str = CREDENTIAL_LIFETIME
    """Lifetime of the tokens that the controllers request from clusters; one may grant less."""
    network_policy: bool = True
    monitoring_namespaces: tuple[str, ...] | str = ("monitoring",)
    """Namespaces whose pods may read the metrics."""
    service_monitor: bool = False
    controller_resources: Block = field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "256Mi"}}
    )
    envoy_resources: Block = field(
        default_factory=lambda: {
            "requests": {"cpu": "250m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        }
    )
    gateway_resources: Block = field(default_factory=lambda: {"requests": {"cpu": "50m", "memory": "128Mi"}})
