"""The volume on which a ModelCache lies on one cluster, as those who fill it and those who read it name it.

Staging a cache and serving from it are composed apart and meet only here.
"""

from modelplane.api.names import child_name

MOUNT_PATH = "/mnt/models"
"""Where engines find the weights."""

MARKER = ".modelplane-hydrated"
"""File in the volume that is written last, when the weights are complete."""


def claim_name(namespace: str, cache: str) -> str:
    """Return the name of the PersistentVolumeClaim that holds a cache on a cluster."""
    return child_name("modelcache", namespace, cache)
