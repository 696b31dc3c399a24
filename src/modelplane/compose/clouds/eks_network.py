"""The network of an EKS cluster: its zones and their subnets, its VPC, and the fabric between its nodes.

A VPC has a public and a private subnet in each zone, and one NAT gateway. The fabric consists of Elastic
Fabric Adapters of nodes, and the security group for their traffic.
"""

from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any

import msgspec

from modelplane.api.clouds.eks_cluster import EKSCluster, EKSFabric
from modelplane.api.schema.untyped import get_map
from modelplane.compose.clouds import address_ranges
from modelplane.compose.clouds.kinds import (
    EKS_EGRESS_RULE,
    EKS_EIP,
    EKS_INGRESS_RULE,
    EKS_INTERNET_GATEWAY,
    EKS_NAT_GATEWAY,
    EKS_ROUTE,
    EKS_ROUTE_TABLE,
    EKS_ROUTE_TABLE_ASSOCIATION,
    EKS_SECURITY_GROUP,
    EKS_SUBNET,
    EKS_VPC,
)
from modelplane.compose.clouds.site import Parts, Site


class Zone(msgspec.Struct, frozen=True):
    """An availability zone of the cluster."""

    index: int
    name: str
    public: str
    private: str
    """The range of the private subnet; empty if the VPC has no room for it."""


DNS = {"enableDnsHostnames": True, "enableDnsSupport": True}
"""Nodes find the API server by name. Source: Amazon EKS, "VPC requirements"."""

ANYWHERE = "0.0.0.0/0"
"""Every address. Source: Amazon VPC, "Route tables"."""

LOAD_BALANCERS = {"kubernetes.io/role/elb": "1"}
"""Public load balancers are made in such subnets. Source: Amazon EKS, "Subnet requirements"."""

PUBLIC = {"mapPublicIpOnLaunch": True, "tags": LOAD_BALANCERS}
"""Properties of public subnets. Source: Amazon EKS, "VPC requirements"."""

IN_VPC = "vpc"
"""Domain of an Elastic IP address. Source: EC2 API, ``AllocateAddress``."""

CARDS = {"p5.48xlarge": 32, "p5e.48xlarge": 32, "p5en.48xlarge": 16, "p4d.24xlarge": 4, "p4de.24xlarge": 4}
"""Network cards of instance types. Source: Amazon EC2, "EFA-supported instance types"."""

ONE_CARD = 1
"""Network cards of a type that is not in ``CARDS``. Source: as for ``CARDS``."""

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
"""Key of the security group. Source: Modelplane."""


def zones(site: Site[EKSCluster]) -> tuple[Zone, ...]:
    """Return the zones of a cluster.

    A private subnet that exists keeps its range, because AWS cannot change it.
    """
    spec = site.owner.spec
    public = spec.networking.subnet_cidrs
    names = spec.networking.zones or tuple(spec.region + letter for letter in ascii_lowercase[: len(public)])
    existing = {
        index: str(get_map(subnet, "spec", "forProvider").get("cidrBlock", ""))
        for index in range(len(public))
        if (subnet := site.request.observed.get(f"private-subnet-{index}"))
    }
    private = dict(enumerate(spec.networking.private_subnet_cidrs)) or {
        index: found for index, found in existing.items() if found
    }
    missing = [index for index in range(len(public)) if index not in private]
    found = address_ranges.free_ranges(
        spec.networking.vpc_cidr, (*public, *private.values()), (public[index] for index in missing)
    )
    private |= dict(zip(missing, found, strict=False))
    return tuple(
        Zone(index, name, cidr, private.get(index, ""))
        for index, (name, cidr) in enumerate(zip(names, public, strict=False))
    )


def find_subnet_problems(site: Site[EKSCluster]) -> Iterator[str]:
    """Yield what is wrong with the zones and the ranges of a cluster."""
    spec = site.owner.spec
    networking = spec.networking
    count = len(networking.subnet_cidrs)
    for field, given in (
        ("privateSubnetCidrs", networking.private_subnet_cidrs),
        ("zones", networking.zones),
    ):
        if given and len(given) != count:
            yield (
                f"networking.{field} has {len(given)} items, but subnetCidrs has {count}: use the same number"
            )
            return
    for zone in networking.zones:
        if not is_in(zone, spec.region):
            yield f"networking.zones: zone {zone} is not in region {spec.region}"
    whole = {"vpcCidr": networking.vpc_cidr}
    given_ranges = {f"subnetCidrs[{index}]": cidr for index, cidr in enumerate(networking.subnet_cidrs)}
    wrong = list(address_ranges.problems(given_ranges, within=whole))
    yield from wrong
    if wrong:
        return
    private = {f"privateSubnetCidrs[{zone.index}]": zone.private for zone in zones(site)}
    if not all(private.values()):
        yield (
            f"vpcCidr {networking.vpc_cidr} is too small for private subnets that are as large as the "
            "public subnets"
        )
        return
    yield from address_ranges.problems({**given_ranges, **private}, within=whole)


def is_in(zone: str, region: str) -> bool:
    """Return True if a name is that of an availability zone of a region: the region and a letter."""
    return zone[:-1] == region and zone[-1:] in ascii_lowercase


def compose_network(site: Site[EKSCluster]) -> Parts:
    """Compose the VPC, its subnets, and their ways out."""
    spec = site.owner.spec
    in_vpc = {"region": spec.region, "vpcIdRef": {"name": site.name("vpc")}}
    yield site.managed("vpc", EKS_VPC, {"region": spec.region, "cidrBlock": spec.networking.vpc_cidr, **DNS})
    for zone in zones(site):
        place = {**in_vpc, "availabilityZone": zone.name}
        yield site.managed(
            f"subnet-{zone.index}",
            EKS_SUBNET,
            {**place, "cidrBlock": zone.public, **PUBLIC},
            public_subnet(site, zone.name),
        )
        yield site.managed(
            f"private-subnet-{zone.index}",
            EKS_SUBNET,
            {**place, "cidrBlock": zone.private},
            private_subnet(site, zone.name),
        )
    yield site.managed("internet-gateway", EKS_INTERNET_GATEWAY, in_vpc)
    yield site.managed("nat-eip", EKS_EIP, {"region": spec.region, "domain": IN_VPC})
    yield site.managed(
        "nat-gateway",
        EKS_NAT_GATEWAY,
        {
            "region": spec.region,
            "allocationIdRef": {"name": site.name("nat-eip")},
            "subnetIdRef": {"name": public_subnet(site, zones(site)[0].name)},
        },
    )
    yield from _routes(site, "public", {"gatewayIdRef": {"name": site.name("internet-gateway")}})
    yield from _routes(site, "private", {"natGatewayIdRef": {"name": site.name("nat-gateway")}})


def _routes(site: Site[EKSCluster], tier: str, way_out: dict[str, Any]) -> Parts:
    """Compose the route table of the public or the private subnets."""
    region = {"region": site.owner.spec.region}
    table = {"routeTableIdRef": {"name": site.name(f"{tier}-routes")}}
    yield site.managed(f"{tier}-routes", EKS_ROUTE_TABLE, {**region, "vpcIdRef": {"name": site.name("vpc")}})
    yield site.managed(
        f"{tier}-default-route", EKS_ROUTE, {**region, **table, "destinationCidrBlock": ANYWHERE, **way_out}
    )
    name = public_subnet if tier == "public" else private_subnet
    for zone in zones(site):
        yield site.managed(
            f"{tier}-routes-{zone.index}",
            EKS_ROUTE_TABLE_ASSOCIATION,
            {**region, **table, "subnetIdRef": {"name": name(site, zone.name)}},
        )


def public_subnet(site: Site[EKSCluster], zone: str) -> str:
    """Return the name of the public subnet of a zone."""
    return site.name(f"subnet-{zone}")


def private_subnet(site: Site[EKSCluster], zone: str) -> str:
    """Return the name of the private subnet of a zone."""
    return site.name(f"private-subnet-{zone}")


def compose_fabric(site: Site[EKSCluster]) -> Parts:
    """Compose the security group, if a pool has adapters."""
    if not has_adapters(site):
        return
    region = {"region": site.owner.spec.region}
    name = site.name("efa-sg")
    yield site.managed(
        GROUP,
        EKS_SECURITY_GROUP,
        {**region, "name": name, "description": PURPOSE, "vpcIdRef": {"name": site.name("vpc")}},
        name,
    )
    rule = {
        **region,
        "ipProtocol": ANY_PROTOCOL,
        "securityGroupIdRef": {"name": name},
        "referencedSecurityGroupIdRef": {"name": name},
    }
    yield site.managed("efa-ingress", EKS_INGRESS_RULE, rule)
    yield site.managed("efa-egress", EKS_EGRESS_RULE, rule)


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
