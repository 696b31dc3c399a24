"""The network of a Nebius cluster: one subnet, with addresses of the pools of its network."""

from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.compose.clouds.nebius.kinds import NETWORK, SUBNET
from modelplane.compose.clouds.nebius.nebius_names import named
from modelplane.compose.clouds.site import Parts, Site

OF_NETWORK = {"useNetworkPools": True}
"""Addresses of the pools of the network, which Nebius chooses. Source: reference API, 4.4."""


def compose(site: Site[NebiusCluster]) -> Parts:
    """Compose the network and the subnet."""
    yield named(site, "network", NETWORK, {})
    yield named(
        site,
        "subnet",
        SUBNET,
        {"networkIdRef": {"name": site.name("network")}, "ipv4PrivatePools": OF_NETWORK},
    )
