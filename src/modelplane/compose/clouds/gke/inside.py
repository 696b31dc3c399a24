"""Inside a GKE cluster: the StorageClass of Filestore. GKE scales pools itself."""

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.compose.clouds.inside import Inside, storage
from modelplane.compose.clouds.site import Site


def inside(site: Site[GKECluster]) -> Inside:
    """Return the StorageClass, whose instances are in the network of the cluster."""
    parameters = {"tier": site.owner.spec.filestore.tier, "network": site.name("network")}
    filestore = storage(Cloud.GKE, parameters, VolumeBinding.IMMEDIATE, allow_volume_expansion=True)
    return Inside(storage=filestore)
