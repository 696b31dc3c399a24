"""Inside a Nebius cluster: the driver for its file system, and the StorageClass.

Nebius scales pools itself.
"""

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.compose.clouds.inside import Inside, storage
from modelplane.compose.clouds.site import Site


def inside(site: Site[NebiusCluster]) -> Inside:
    """Return the driver and the StorageClass, if nodes mount the file system.

    Otherwise the driver would write to the disk of each node, and no other node would see the files.
    """
    if not site.owner.spec.file_system.cloud_init_secret:
        return Inside()
    shared = storage(Cloud.NEBIUS, {}, VolumeBinding.WAIT_FOR_FIRST_CONSUMER)
    return Inside({ComponentName.MOUNTED_FILE_SYSTEM: {}}, shared)
