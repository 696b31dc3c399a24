"""The network of an EKS cluster: a VPC, a public and a private subnet in each zone, and one NAT gateway."""

from typing import Any

from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.compose.clouds.eks.kinds import (
    EIP,
    INTERNET_GATEWAY,
    NAT_GATEWAY,
    ROUTE,
    ROUTE_TABLE,
    ROUTE_TABLE_ASSOCIATION,
    SUBNET,
    VPC,
)
from modelplane.compose.clouds.eks.subnets import zones
from modelplane.compose.clouds.site import Parts, Site

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


def compose(site: Site[EKSCluster]) -> Parts:
    """Compose the VPC, its subnets, and their ways out."""
    spec = site.owner.spec
    in_vpc = {"region": spec.region, "vpcIdRef": {"name": site.name("vpc")}}
    yield site.managed("vpc", VPC, {"region": spec.region, "cidrBlock": spec.networking.vpc_cidr, **DNS})
    for zone in zones(site):
        place = {**in_vpc, "availabilityZone": zone.name}
        yield site.managed(
            f"subnet-{zone.index}",
            SUBNET,
            {**place, "cidrBlock": zone.public, **PUBLIC},
            public_subnet(site, zone.name),
        )
        yield site.managed(
            f"private-subnet-{zone.index}",
            SUBNET,
            {**place, "cidrBlock": zone.private},
            private_subnet(site, zone.name),
        )
    yield site.managed("internet-gateway", INTERNET_GATEWAY, in_vpc)
    yield site.managed("nat-eip", EIP, {"region": spec.region, "domain": IN_VPC})
    yield site.managed(
        "nat-gateway",
        NAT_GATEWAY,
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
    yield site.managed(f"{tier}-routes", ROUTE_TABLE, {**region, "vpcIdRef": {"name": site.name("vpc")}})
    yield site.managed(
        f"{tier}-default-route", ROUTE, {**region, **table, "destinationCidrBlock": ANYWHERE, **way_out}
    )
    name = public_subnet if tier == "public" else private_subnet
    for zone in zones(site):
        yield site.managed(
            f"{tier}-routes-{zone.index}",
            ROUTE_TABLE_ASSOCIATION,
            {**region, **table, "subnetIdRef": {"name": name(site, zone.name)}},
        )


def public_subnet(site: Site[EKSCluster], zone: str) -> str:
    """Return the name of the public subnet of a zone."""
    return site.name(f"subnet-{zone}")


def private_subnet(site: Site[EKSCluster], zone: str) -> str:
    """Return the name of the private subnet of a zone."""
    return site.name(f"private-subnet-{zone}")
