"""ServingStack: the components that a cluster needs to serve models.

One is made for every InferenceCluster, unless its profile is None. The references to the credentials for the
cluster are copied into it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from modelplane.api.clouds.cloud_cluster import ClusterSecret
from modelplane.api.fields.cluster.stack_components import (
    COMPONENTS,
    MAX_COMPONENTS,
    ComponentSettings,
    ComponentStatus,
    ServingProfile,
)
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.names import child_name
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, VERSION, Rule, about

KEY: Final = "serving-stack"
"""Key of a stack among the children of its InferenceCluster."""


def name_stack(cluster: str) -> str:
    """Return the name of the stack of an InferenceCluster."""
    return child_name(cluster, KEY)


class ListenerProtocol(StrEnum):
    """Protocol of a listener of the gateway."""

    HTTP = "HTTP"
    TCP = "TCP"


def _version(component: str) -> Meta:
    return about(f"Version of {component}.", min_length=1, max_length=32, pattern=VERSION)


class Versions(Model):
    """Versions of the installed components."""

    gateway_api: Annotated[str, _version("the Gateway API")] = "v1.5.1"
    cert_manager: Annotated[str, _version("the cert-manager chart")] = "v1.17.1"
    envoy_gateway: Annotated[str, _version("the Envoy Gateway chart, v1.8 or later")] = "v1.8.1"
    prometheus: Annotated[str, _version("the kube-prometheus-stack chart")] = "72.6.2"
    leader_worker_set: Annotated[str, _version("the LeaderWorkerSet chart")] = "v0.8.0"
    node_feature_discovery: Annotated[str, _version("the Node Feature Discovery chart")] = "0.18.3"
    nvidia_dra_driver: Annotated[str, _version("the NVIDIA DRA driver chart")] = "0.4.0"


class Listener(Model):
    """A port of the gateway."""

    name: Annotated[str, about("Name of the listener.", min_length=1, max_length=63, pattern=DNS_SUBDOMAIN)]
    port: Annotated[int, about("Port.", ge=1, le=65535)]
    protocol: Annotated[ListenerProtocol, about("Protocol of the port.")]


class StackGateway(Model):
    """The gateway of the cluster, which routes to its engines."""

    class_name: Annotated[
        str, about("Name of its GatewayClass.", min_length=1, max_length=63, pattern=DNS_LABEL)
    ] = "envoy"
    listeners: Annotated[
        tuple[Listener, ...],
        about("Its ports. Absent: port 80 for HTTP.", max_length=8, keys=("name",)),
    ] = ()


class VolumeBinding(StrEnum):
    """Time at which a volume is made: with its claim, or with the first pod that uses it."""

    IMMEDIATE = "Immediate"
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


_Parameter = Annotated[str, about("Value of a parameter.", max_length=1024)]
_MountOption = Annotated[str, about("Option of a mount.", max_length=253)]


class StackStorage(Model):
    """The StorageClass for ModelCaches that the stack makes on a cluster."""

    name: Annotated[
        str, about("Name of the StorageClass.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)
    ]
    provisioner: Annotated[
        str, about("Driver of its volumes.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)
    ]
    parameters: Annotated[Mapping[str, _Parameter], about("Parameters of the driver.", max_length=16)] = {}
    mount_options: Annotated[
        tuple[_MountOption, ...], about("Options of mounts.", max_length=16, atomic=True)
    ] = ()
    volume_binding_mode: Annotated[
        VolumeBinding,
        about("Immediate: a volume is made with its claim. WaitForFirstConsumer: with the first pod."),
    ] = VolumeBinding.IMMEDIATE
    allow_volume_expansion: Annotated[bool, about("True: volumes can grow.")] = False


class ServingStackSpec(Model):
    """The components to install, and access to the cluster."""

    cluster_name: (
        Annotated[
            str,
            about(
                "Name of the InferenceCluster. Without it, nothing is installed.",
                min_length=1,
                max_length=63,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None
    profile: Annotated[
        ServingProfile,
        about(
            "Standard: everything that serving needs. Minimal: the gateway, and the DRA driver with what "
            "labels its nodes. None: only what is enabled in components."
        ),
    ] = ServingProfile.STANDARD
    components: Annotated[tuple[ComponentSettings, ...], COMPONENTS] = ()
    secrets: Annotated[
        tuple[ClusterSecret, ...],
        about(
            "Secrets for access to the cluster: a Kubeconfig, and a cloud identity where the "
            "kubeconfig alone is not enough.",
            min_length=1,
            max_length=8,
            atomic=True,
            rules=(
                Rule(
                    "self.exists(secret, secret.type == 'Kubeconfig')",
                    "one of the secrets must be of type Kubeconfig: without it the cluster cannot be reached",
                ),
            ),
        ),
    ]
    nvidia_driver_root: Annotated[
        str, about("Path of the NVIDIA driver in the file system of the nodes.", max_length=512)
    ] = "/"
    versions: Annotated[Versions, about("Versions of the installed components.")] = Versions()
    gateway: Annotated[StackGateway, about("The gateway of the cluster.")] = StackGateway()
    storage_class: (
        Annotated[
            StackStorage,
            about(
                "The StorageClass for ModelCaches, which component storage-class makes. An InferenceCluster "
                "of a cloud sets it."
            ),
        ]
        | None
    ) = None


class StackGatewayStatus(Model):
    """Address of the gateway."""

    address: Annotated[str, about("Host or IP address.", max_length=256)] | None = None


class ServingStackStatus(Status):
    """Status of the stack."""

    gateway: Annotated[StackGatewayStatus, about("Address of the gateway.")] | None = None
    components: Annotated[
        tuple[ComponentStatus, ...],
        about("State of each component.", max_length=MAX_COMPONENTS, keys=("name",)),
    ] = ()
    clusters: Annotated[
        tuple[str, ...], about("InferenceClusters that may have objects of the stack.", unique=True)
    ] = ()


class ServingStack(Model):
    """The components that a cluster needs to serve: gateway, DRA driver, LeaderWorkerSet, metrics."""

    metadata: ObjectMeta
    spec: Annotated[ServingStackSpec, about("The components to install, and access to the cluster.")]
    status: Annotated[ServingStackStatus, about("Status of the stack.")] = ServingStackStatus()
