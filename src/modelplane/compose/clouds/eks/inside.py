"""Inside an EKS cluster: the autoscaler, the driver for EFA, and the StorageClass of EFS."""

from typing import Any

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.compose.clouds.eks import fabric, storage
from modelplane.compose.clouds.eks.identity import cluster_name
from modelplane.compose.clouds.inside import Inside
from modelplane.compose.clouds.inside import storage as storage_class
from modelplane.compose.clouds.site import Site

BY_ACCESS_POINT = {"provisioningMode": "efs-ap", "directoryPerms": "700"}
"""Each volume is a folder with a user of its own. Source: aws-efs-csi-driver, "Dynamic provisioning"."""


def inside(site: Site[EKSCluster]) -> Inside:
    """Return the components, and the StorageClass once the id of the file system is known."""
    discovery = {"clusterName": cluster_name(site)}
    components: dict[ComponentName, dict[str, Any]] = {
        ComponentName.CLUSTER_AUTOSCALER: {
            "autoDiscovery": discovery,
            "awsRegion": site.owner.spec.region,
        }
    }
    if fabric.has_adapters(site):
        components[ComponentName.EFA_DRA_DRIVER] = {}
    file_system = storage.file_system(site)
    if not file_system:
        return Inside(components)
    parameters = {**BY_ACCESS_POINT, "fileSystemId": file_system}
    return Inside(components, storage_class(Cloud.EKS, parameters, VolumeBinding.IMMEDIATE))
