"""The storage of a Nebius cluster for model caches: a file system that is attached to every node."""

from typing import Any

from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.compose.clouds.nebius.kinds import FILE_SYSTEM
from modelplane.compose.clouds.nebius.nebius_names import named
from modelplane.compose.clouds.site import Parts, Site

WRITABLE = "READ_WRITE"
"""Mode of its attachment. Source: Nebius API, ``AttachedFilesystemSpec.attach_mode``."""

TAG = "modelplane-cache"
"""Name of the device on nodes. Source: reference API, 4.4."""

USER_DATA = "userData"
"""Key of the Secret with the cloud-init configuration; no other key of a Secret can be named.
Source: reference API, 4.4."""


def compose(site: Site[NebiusCluster]) -> Parts:
    """Compose the file system."""
    settings = site.owner.spec.file_system
    yield named(site, "filesystem", FILE_SYSTEM, {"type": settings.type, "sizeGibibytes": settings.size_gib})


def attachment(site: Site[NebiusCluster]) -> dict[str, Any]:
    """Return the fields of a node that attach the file system, and mount it."""
    attached = {
        "attachMode": WRITABLE,
        "mountTag": TAG,
        "existingFilesystem": {"idRef": {"name": site.name("filesystem")}},
    }
    secret = site.owner.spec.file_system.cloud_init_secret
    mounted = {"cloudInitUserDataSecretRef": {"name": secret, "key": USER_DATA}} if secret else {}
    return {"filesystems": [attached], **mounted}
