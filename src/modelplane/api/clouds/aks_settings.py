"""Settings of a cluster on Azure Kubernetes Service: the same for an InferenceCluster and its AKSCluster."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.cloud_settings import CloudCredentials, DiskSizeGb, KubernetesVersion
from modelplane.api.fields.cluster.node_pools import MAX_CLOUD_POOL_NODES
from modelplane.api.meta import Model
from modelplane.api.schema.fields import CIDR, about


class AKSGPUDriver(StrEnum):
    """Drivers of GPUs that AKS installs on nodes."""

    INSTALL = "Install"
    NONE = "None"


class AKSNetworking(Model):
    """Address ranges of the cluster's network."""

    vnet_cidr: Annotated[str, about("Address range of the virtual network.", max_length=18, pattern=CIDR)] = (
        "10.0.0.0/16"
    )
    subnet_cidr: Annotated[str, about("Address range of the nodes.", max_length=18, pattern=CIDR)] = (
        "10.0.0.0/20"
    )
    pod_cidr: Annotated[
        str, about("Address range of the pods, which is an overlay network.", max_length=18, pattern=CIDR)
    ] = "10.244.0.0/16"
    service_cidr: Annotated[str, about("Address range of the Services.", max_length=18, pattern=CIDR)] = (
        "10.96.0.0/16"
    )


class AKSSystemPool(Model):
    """Nodes for system components. Engines don't run on these nodes."""

    vm_size: Annotated[str, about("Azure VM size.", min_length=1, max_length=63)] = "Standard_D4s_v5"
    disk_size_gb: DiskSizeGb = 100
    min_node_count: Annotated[int, about("Minimum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 1
    max_node_count: Annotated[int, about("Maximum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 2


class AKSFileShares(Model):
    """Azure Files shares, used as the volumes of ModelCaches."""

    sku_name: Annotated[
        str,
        about(
            "Storage account type of new shares, such as Premium_LRS or Premium_ZRS.",
            min_length=1,
            max_length=63,
            pattern="^[A-Za-z0-9_]+$",
        ),
    ] = "Premium_LRS"


class AKSSettings(Model):
    """Settings of an Azure Kubernetes Service (AKS) cluster."""

    location: Annotated[str, about("Azure location, such as westeurope.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.34"
    credentials: CloudCredentials | None = None
    networking: Annotated[AKSNetworking, about("Address ranges of the cluster's network.")] = AKSNetworking()
    system_pool: Annotated[
        AKSSystemPool, about("Nodes for system components. Engines don't run on these nodes.")
    ] = AKSSystemPool()
    gpu_driver: Annotated[
        AKSGPUDriver,
        about(
            "Whether AKS installs the NVIDIA driver on GPU nodes. Install: AKS installs the "
            "driver. None: you install the driver in another way."
        ),
    ] = AKSGPUDriver.INSTALL
    file_shares: Annotated[
        AKSFileShares, about("Azure Files shares, used as the volumes of ModelCaches.")
    ] = AKSFileShares()
