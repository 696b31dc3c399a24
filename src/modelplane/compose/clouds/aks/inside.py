"""Inside an AKS cluster: the StorageClass of Azure Files, and drivers for InfiniBand.

AKS scales pools itself.
"""

from typing import Any

from modelplane.api.clouds.aks_cluster import AKSCluster, AKSFabric
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.compose.clouds.inside import Inside, storage
from modelplane.compose.clouds.site import Site

MOUNT_OPTIONS = (
    "dir_mode=0777",
    "file_mode=0777",
    "uid=0",
    "gid=0",
    "mfsymlinks",
    "cache=strict",
    "actimeo=30",
    "nosharesock",
)
"""Every user may write, and links work, as caches need it. Source: AKS, "Azure Files", mount options."""


def inside(site: Site[AKSCluster]) -> Inside:
    """Return the StorageClass, and NVIDIA's network operator if a pool has InfiniBand."""
    spec = site.owner.spec
    shares = storage(
        Cloud.AKS,
        {"skuName": spec.file_shares.sku_name},
        VolumeBinding.WAIT_FOR_FIRST_CONSUMER,
        mount_options=MOUNT_OPTIONS,
        allow_volume_expansion=True,
    )
    components: dict[ComponentName, dict[str, Any]] = {}
    if any(pool.fabric is AKSFabric.INFINIBAND for pool in spec.node_pools):
        components[ComponentName.NETWORK_OPERATOR] = {}
    return Inside(components, shares)
