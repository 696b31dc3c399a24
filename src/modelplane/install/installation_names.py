"""Names of the parts of an installation, and the labels that select them."""

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
