"""The fabric of an EKS cluster: Elastic Fabric Adapters of nodes, and the group for their traffic."""

from typing import Any

from modelplane.api.clouds.eks_cluster import EKSCluster, EKSFabric
from modelplane.compose.clouds.eks.kinds import EGRESS_RULE, INGRESS_RULE, SECURITY_GROUP
from modelplane.compose.clouds.site import Parts, Site

CARDS = {"p5.48xlarge": 32, "p5e.48xlarge": 32, "p5en.48xlarge": 16, "p4d.24xlarge": 4, "p4de.24xlarge": 4}
"""Network cards of instance types. Source: Amazon EC2, "EFA-supported instance types"; reference API, 4.2."""

ONE_CARD = 1
"""Network cards of any other type. Source: reference API, 4.2."""

WITH_IP = "efa"
"""Interface type of the first card, which also has an IP address. Source: Amazon EC2, "EFA interfaces"."""

WITHOUT_IP = "efa-only"
"""Interface type of every other card. Source: Amazon EC2, "EFA interfaces"."""

FIRST_DEVICE = 0
"""Device index on the first card. Source: Amazon EC2, "Maximize network bandwidth", network cards."""

OTHER_DEVICE = 1
"""Device index on every other card. Source: Amazon EC2, "Maximize network bandwidth", network cards."""

ANY_PROTOCOL = "-1"
"""Every protocol. Source: EC2 API, ``IpPermission.IpProtocol``."""

PURPOSE = "Traffic between Elastic Fabric Adapters."
"""Description of the security group. Source: Modelplane."""

GROUP = "efa-security-group"
"""Key of the security group. Source: reference behaviour, section 14."""


def compose(site: Site[EKSCluster]) -> Parts:
    """Compose the security group, if a pool has adapters."""
    if not has_adapters(site):
        return
    region = {"region": site.owner.spec.region}
    name = site.name("efa-sg")
    yield site.managed(
        GROUP,
        SECURITY_GROUP,
        {**region, "name": name, "description": PURPOSE, "vpcIdRef": {"name": site.name("vpc")}},
        name,
    )
    rule = {
        **region,
        "ipProtocol": ANY_PROTOCOL,
        "securityGroupIdRef": {"name": name},
        "referencedSecurityGroupIdRef": {"name": name},
    }
    yield site.managed("efa-ingress", INGRESS_RULE, rule)
    yield site.managed("efa-egress", EGRESS_RULE, rule)


def has_adapters(site: Site[EKSCluster]) -> bool:
    """Return True if a pool has adapters."""
    return any(pool.fabric is EKSFabric.EFA for pool in site.owner.spec.node_pools)


def security_groups(site: Site[EKSCluster]) -> list[str]:
    """Return the ids of the groups of a node with adapters; empty until both are known.

    A launch template with interfaces of its own replaces the groups that EKS would give the node.
    """
    ids = [site.text(GROUP, "id"), site.text("cluster", "vpcConfig", "clusterSecurityGroupId")]
    return ids if all(ids) else []


def interfaces(instance_type: str, groups: list[str]) -> list[dict[str, Any]]:
    """Return the network interfaces of a node: one for each network card."""
    return [
        {
            "networkCardIndex": card,
            "deviceIndex": OTHER_DEVICE if card else FIRST_DEVICE,
            "interfaceType": WITHOUT_IP if card else WITH_IP,
            "securityGroups": groups,
        }
        for card in range(CARDS.get(instance_type, ONE_CARD))
    ]
