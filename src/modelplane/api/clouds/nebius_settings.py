"""Settings of a cluster on Nebius: the same for an InferenceCluster and its NebiusCluster."""

from typing import Annotated

from modelplane.api.clouds.cloud_settings import CloudCredentials, DiskSizeGb, KubernetesVersion
from modelplane.api.fields.cluster.node_pools import MAX_CLOUD_POOL_NODES
from modelplane.api.inference_class import Platform, Preset
from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, about

_DiskType = Annotated[
    str, about("Type of the disk, as Nebius names it.", min_length=1, max_length=63, pattern="^[A-Z0-9_]+$")
]


class NebiusSystemPool(Model):
    """Nodes for system components. Engines don't run on these nodes."""

    platform: Platform = "cpu-d3"
    preset: Preset = "4vcpu-16gb"
    disk_size_gb: DiskSizeGb = 100
    min_node_count: Annotated[int, about("Minimum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 1
    max_node_count: Annotated[int, about("Maximum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 2


class NebiusFileSystem(Model):
    """File system for ModelCaches, attached to every node."""

    size_gib: Annotated[
        int, about("Size of the file system, in GiB. You can only increase the size.", ge=1, le=1048576)
    ] = 1024
    type: _DiskType = "NETWORK_SSD"
    cloud_init_secret: (
        Annotated[
            str,
            about(
                "Secret with the cloud-init configuration of every node in key userData, in the "
                "namespace where the cluster is provisioned. The configuration must mount the file "
                "system with the tag modelplane-cache. Default: no node mounts the file system.",
                min_length=1,
                max_length=253,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None


class NebiusSettings(Model):
    """Settings of a Nebius cluster. The provider configuration sets the project and the region."""

    kubernetes_version: KubernetesVersion = "1.34"
    credentials: CloudCredentials | None = None
    system_pool: Annotated[
        NebiusSystemPool, about("Nodes for system components. Engines don't run on these nodes.")
    ] = NebiusSystemPool()
    boot_disk_type: _DiskType = "NETWORK_SSD"
    file_system: Annotated[
        NebiusFileSystem, about("File system for ModelCaches, attached to every node.")
    ] = NebiusFileSystem()
