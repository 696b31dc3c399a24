"""The zones of an EKS cluster, with the ranges of the public and the private subnet in each."""

from collections.abc import Iterator
from string import ascii_lowercase

import msgspec

from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.compose.clouds import address_ranges
from modelplane.compose.clouds.site import Site


class Zone(msgspec.Struct, frozen=True):
    """An availability zone of the cluster."""

    index: int
    name: str
    public: str
    private: str
    """The range of the private subnet; empty if the VPC has no room for it."""


def zones(site: Site[EKSCluster]) -> tuple[Zone, ...]:
    """Return the zones of a cluster.

    A private subnet that exists keeps its range, because AWS cannot change it.
    """
    spec = site.owner.spec
    public = spec.networking.subnet_cidrs
    names = spec.networking.zones or tuple(spec.region + letter for letter in ascii_lowercase[: len(public)])
    existing = {index: _existing(site, index) for index in range(len(public))}
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


def problems(site: Site[EKSCluster]) -> Iterator[str]:
    """Yield what is wrong with the zones and the ranges of a cluster."""
    spec = site.owner.spec
    networking = spec.networking
    count = len(networking.subnet_cidrs)
    for field, given in (
        ("privateSubnetCidrs", networking.private_subnet_cidrs),
        ("zones", networking.zones),
    ):
        if given and len(given) != count:
            yield f"networking.{field} has {len(given)} items and subnetCidrs {count}: give one for each"
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
        yield f"vpcCidr {networking.vpc_cidr} has no room for private subnets as large as the public ones"
        return
    yield from address_ranges.problems({**given_ranges, **private}, within=whole)


def is_in(zone: str, region: str) -> bool:
    """Return True if a name is that of an availability zone of a region: the region and a letter."""
    return zone[:-1] == region and zone[-1:] in ascii_lowercase


def _existing(site: Site[EKSCluster], index: int) -> str:
    spec = site.request.observed.get(f"private-subnet-{index}", {}).get("spec", {})
    return str(spec.get("forProvider", {}).get("cidrBlock", ""))
