"""Clouds of clusters and their nodes: one row each.

The CustomResourceDefinitions, the storage for caches and the reference pages follow from the rows.
The settings of a cloud are types: a field of a cluster's origin (``cluster_origin``), and one of a class's
provisioning (``inference_class``), named like the cloud.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec


class Cloud(StrEnum):
    """A cloud, as ``source`` of a cluster and ``provider`` of a class name it."""

    GKE = "GKE"
    EKS = "EKS"
    AKS = "AKS"
    NEBIUS = "Nebius"
    VULTR = "Vultr"


class CloudTraits(msgspec.Struct, frozen=True):
    """Row of a cloud: its offers for clusters, and its demands on their pools."""

    cloud: Cloud
    cache_storage: str = ""
    """The StorageClass for ModelCaches that its clusters get. Empty: it offers no ReadWriteMany volumes."""
    cache_provisioner: str = ""
    """The driver of that StorageClass."""
    needs_zones: bool = False
    """True if every pool has to name the zones of its nodes."""
    needs_upper_bound: bool = False
    """True if a pool with a minimum has to have a maximum."""
    needs_a_node: bool = False
    """True if no pool may be empty."""
    has_short_pool_names: bool = False
    """True if names of pools have at most twelve letters and digits."""
    region_setting: str = ""
    """The field of its clusters' settings that names their region. Empty: they do not name it."""
    has_capacity_blocks: bool = False
    """True if pools can be backed by reserved capacity."""
    has_spot: bool = False
    """True if pools can be of spot nodes."""


CLOUDS = (
    CloudTraits(
        Cloud.GKE,
        cache_storage="modelplane-rwx",
        cache_provisioner="filestore.csi.storage.gke.io",
        region_setting="region",
        needs_zones=True,
        has_spot=True,
    ),
    CloudTraits(
        Cloud.EKS,
        cache_storage="modelplane-rwx-efs",
        cache_provisioner="efs.csi.aws.com",
        region_setting="region",
        needs_zones=True,
        has_capacity_blocks=True,
        has_spot=True,
    ),
    CloudTraits(
        Cloud.AKS,
        cache_storage="modelplane-rwx-fs",
        cache_provisioner="file.csi.azure.com",
        region_setting="location",
        has_short_pool_names=True,
        has_spot=True,
    ),
    CloudTraits(
        Cloud.NEBIUS,
        cache_storage="modelplane-rwx-fs",
        cache_provisioner="mounted-fs-path.csi.nebius.ai",
        needs_upper_bound=True,
        has_spot=True,
    ),
    CloudTraits(Cloud.VULTR, region_setting="region", needs_upper_bound=True, needs_a_node=True),
)
"""Every cloud."""


def list_clouds_where(holds: Callable[[CloudTraits], bool]) -> tuple[str, ...]:
    """Return the names of the clouds of which something holds."""
    return tuple(str(row.cloud) for row in CLOUDS if holds(row))


CLUSTER_KINDS = tuple(sorted(f"{cloud}Cluster" for cloud in Cloud))
"""The kinds of their clusters."""


def get_traits(cloud: Cloud) -> CloudTraits:
    """Return the row of a cloud."""
    return next(row for row in CLOUDS if row.cloud is cloud)


def get_cache_storage(cloud: Cloud) -> str:
    """Return the StorageClass for ModelCaches that a cloud's clusters get; empty where there is none."""
    return get_traits(cloud).cache_storage
