"""The storage of an EKS cluster for model caches: an EFS file system with a mount target in each zone."""

from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.compose.clouds.eks.kinds import FILE_SYSTEM, INGRESS_RULE, MOUNT_TARGET, SECURITY_GROUP
from modelplane.compose.clouds.eks.network import private_subnet
from modelplane.compose.clouds.eks.subnets import zones
from modelplane.compose.clouds.site import Parts, Site

FILE_SYSTEM_SETTINGS = {"encrypted": True, "throughputMode": "elastic"}
"""Throughput that follows the load, which staging and starting models make. Source: Amazon EFS, "Throughput
modes"."""

NFS = {"ipProtocol": "tcp", "fromPort": 2049, "toPort": 2049}
"""Source: Amazon EFS, "Security groups"."""

PURPOSE = "Mount targets of the file system for ModelCaches."
"""Description of the security group. Source: Modelplane."""


def file_system(site: Site[EKSCluster]) -> str:
    """Return the id of the file system, as AWS reports it or as it was known; empty until it is."""
    cache = site.owner.status.cache
    return site.text("efs", "id") or (cache.file_system if cache else None) or ""


def compose(site: Site[EKSCluster]) -> Parts:
    """Compose the file system, and its access from the VPC."""
    spec = site.owner.spec
    region = {"region": spec.region}
    yield site.managed("efs", FILE_SYSTEM, {**region, **FILE_SYSTEM_SETTINGS})
    yield site.managed(
        "efs-security-group",
        SECURITY_GROUP,
        {
            **region,
            "name": site.name("efs-security-group"),
            "description": PURPOSE,
            "vpcIdRef": {"name": site.name("vpc")},
        },
    )
    yield site.managed(
        "efs-ingress",
        INGRESS_RULE,
        {
            **region,
            **NFS,
            "securityGroupIdRef": {"name": site.name("efs-security-group")},
            "cidrIpv4": spec.networking.vpc_cidr,
        },
    )
    for zone in zones(site):
        yield site.managed(
            f"efs-mount-target-{zone.index}",
            MOUNT_TARGET,
            {
                **region,
                "fileSystemIdRef": {"name": site.name("efs")},
                "subnetIdRef": {"name": private_subnet(site, zone.name)},
                "securityGroupsRefs": [{"name": site.name("efs-security-group")}],
            },
        )
