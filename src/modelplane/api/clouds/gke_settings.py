"""Settings of a cluster on Google Kubernetes Engine: the same for an InferenceCluster and its GKECluster."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.cloud_settings import CloudCredentials, DiskSizeGb, KubernetesVersion
from modelplane.api.fields.cluster.node_pools import MAX_CLOUD_POOL_NODES
from modelplane.api.meta import Model
from modelplane.api.schema.fields import CIDR, about


class ReleaseChannel(StrEnum):
    """Release channel of a GKE cluster."""

    RAPID = "RAPID"
    REGULAR = "REGULAR"
    STABLE = "STABLE"
    EXTENDED = "EXTENDED"


class GKENetworking(Model):
    """Address ranges of the cluster's network."""

    pod_cidr: Annotated[str, about("Address range of the pods.", max_length=18, pattern=CIDR)] = "10.1.0.0/16"
    service_cidr: Annotated[str, about("Address range of the Services.", max_length=18, pattern=CIDR)] = (
        "10.2.0.0/16"
    )
    node_cidr: Annotated[str, about("Address range of the nodes.", max_length=18, pattern=CIDR)] = (
        "10.0.0.0/24"
    )


class GKESystemPool(Model):
    """Nodes for system components. Engines don't run on these nodes."""

    machine_type: Annotated[str, about("Compute Engine machine type.", min_length=1, max_length=63)] = (
        "e2-standard-4"
    )
    disk_size_gb: DiskSizeGb = 100
    min_node_count: Annotated[
        int, about("Minimum number of nodes, in all zones together.", ge=1, le=MAX_CLOUD_POOL_NODES)
    ] = 1
    max_node_count: Annotated[
        int, about("Maximum number of nodes, in all zones together.", ge=1, le=MAX_CLOUD_POOL_NODES)
    ] = 2


class GKEFilestore(Model):
    """Filestore instances, used as the volumes of ModelCaches."""

    tier: Annotated[
        str,
        about(
            "Service tier of new instances, such as zonal, enterprise or basic_hdd.",
            min_length=1,
            max_length=63,
            pattern="^[a-z0-9_-]+$",
        ),
    ] = "enterprise"


class GKESettings(Model):
    """Settings of a Google Kubernetes Engine (GKE) cluster."""

    region: Annotated[str, about("Region, such as us-central1.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.35"
    release_channel: Annotated[
        ReleaseChannel,
        about(
            "Release channel of the cluster. GKE upgrades the cluster from kubernetesVersion "
            "along this channel."
        ),
    ] = ReleaseChannel.REGULAR
    credentials: CloudCredentials | None = None
    project: (
        Annotated[
            str,
            about(
                "Google Cloud project. Default: the project of the provider configuration. You can't "
                "move a cluster to another project.",
                min_length=6,
                max_length=30,
            ),
        ]
        | None
    ) = None
    networking: Annotated[GKENetworking, about("Address ranges of the cluster's network.")] = GKENetworking()
    system_pool: Annotated[
        GKESystemPool, about("Nodes for system components. Engines don't run on these nodes.")
    ] = GKESystemPool()
    image_type: Annotated[
        str,
        about("Operating system image of the nodes.", min_length=1, max_length=63, pattern="^[A-Z0-9_]+$"),
    ] = "COS_CONTAINERD"
    gpu_driver: Annotated[
        str,
        about(
            "NVIDIA driver that GKE installs on the nodes: DEFAULT, LATEST, or INSTALLATION_DISABLED.",
            min_length=1,
            max_length=63,
            pattern="^[A-Z_]+$",
        ),
    ] = "DEFAULT"
    filestore: Annotated[GKEFilestore, about("Filestore instances, used as the volumes of ModelCaches.")] = (
        GKEFilestore()
    )
    deletion_protection: Annotated[
        bool,
        about(
            "Whether Google Cloud refuses to delete the cluster. While true, the cluster remains "
            "even after you delete the InferenceCluster."
        ),
    ] = False
