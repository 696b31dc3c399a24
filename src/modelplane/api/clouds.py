"""The clouds that clusters and their nodes can be made on."""

from enum import StrEnum


class Cloud(StrEnum):
    """A cloud, as ``source`` of a cluster and ``provider`` of a class name it."""

    GKE = "GKE"
    EKS = "EKS"
    AKS = "AKS"
    NEBIUS = "Nebius"
    VULTR = "Vultr"
