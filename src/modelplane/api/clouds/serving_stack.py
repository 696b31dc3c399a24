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
    return about(f"Version of {component} to install.", min_length=1, max_length=32, pattern=VERSION)


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
    """The gateway of the cluster, which routes requests to the engines."""

    class_name: Annotated[
        str, about("Name of the GatewayClass.", min_length=1, max_length=63, pattern=DNS_LABEL)
    ] = "envoy"
    listeners: Annotated[
        tuple[Listener, ...],
        about("Ports of the gateway. Default: port 80 for HTTP.", max_length=8, keys=("name",)),
    ] = ()


class VolumeBinding(StrEnum):
    """Creation time of a volume: with the claim, or when the first pod uses the claim."""

    IMMEDIATE = "Immediate"
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


_Parameter = Annotated[str, about("Value of a parameter.", max_length=1024)]
_MountOption = Annotated[str, about("A mount option.", max_length=253)]


class StackStorage(Model):
    """The StorageClass for ModelCaches that the stack creates on a cluster."""

    name: Annotated[
        str, about("Name of the StorageClass.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)
    ]
    provisioner: Annotated[
        str, about("CSI driver of the volumes.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)
    ]
    parameters: Annotated[Mapping[str, _Parameter], about("Parameters of the driver.", max_length=16)] = {}
    mount_options: Annotated[
        tuple[_MountOption, ...], about("Mount options of the volumes.", max_length=16, atomic=True)
    ] = ()
    volume_binding_mode: Annotated[
        VolumeBinding,
        about(
            "When volumes are created. Immediate: with the claim. WaitForFirstConsumer: when the "
            "first pod uses the claim."
        ),
    ] = VolumeBinding.IMMEDIATE
    allow_volume_expansion: Annotated[bool, about("Whether volumes can be expanded.")] = False


class ServingStackSpec(Model):
    """The components to install, and access to the cluster."""

    cluster_name: (
        Annotated[
            str,
            about(
                "Name of the InferenceCluster. If unset, Modelplane installs nothing.",
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
            "Set of components to install. Standard: every component required for serving. "
            "Minimal: the gateway, the DRA driver, and the component that labels GPU nodes. "
            "None: only the components that are enabled in components."
        ),
    ] = ServingProfile.STANDARD
    components: Annotated[tuple[ComponentSettings, ...], COMPONENTS] = ()
    secrets: Annotated[
        tuple[ClusterSecret, ...],
        about(
            "Secrets for access to the cluster: a Kubeconfig, and a cloud identity if the "
            "kubeconfig requires one.",
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
    nvidia_driver_root: Annotated[str, about("Path of the NVIDIA driver on the nodes.", max_length=512)] = "/"
    versions: Annotated[Versions, about("Versions of the installed components.")] = Versions()
    gateway: Annotated[StackGateway, about("The gateway of the cluster.")] = StackGateway()
    storage_class: (
        Annotated[
            StackStorage,
            about(
                "The StorageClass for ModelCaches, which component storage-class creates. Set by the "
                "InferenceCluster of a cloud."
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
        tuple[str, ...], about("InferenceClusters on which objects of the stack can exist.", unique=True)
    ] = ()


class ServingStack(Model):
    """The components that a cluster requires to serve models: gateway, DRA driver, LeaderWorkerSet, and
    metrics."""

    metadata: ObjectMeta
    spec: Annotated[ServingStackSpec, about("The components to install, and access to the cluster.")]
    status: Annotated[ServingStackStatus, about("Status of the stack.")] = ServingStackStatus()
