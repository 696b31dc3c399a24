"""The volume of a ModelCache on one cluster: the names that staging and serving share."""

from modelplane.api.names import child_name

MARKER = ".modelplane-hydrated"
"""File in the volume that is written last, once the weights are complete."""


def claim_name(namespace: str, cache: str) -> str:
    """Return the name of the PersistentVolumeClaim that holds a cache on a cluster."""
    return child_name("modelcache", namespace, cache)
