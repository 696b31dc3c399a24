"""The fabric of a Nebius cluster: a GPU cluster for each InfiniBand network that pools join."""

from typing import Any

from modelplane.api.clouds.nebius_cluster import NebiusCluster, NebiusNodePool
from modelplane.compose.clouds.nebius.kinds import GPU_CLUSTER
from modelplane.compose.clouds.nebius.nebius_names import named
from modelplane.compose.clouds.site import Parts, Site


def compose(site: Site[NebiusCluster]) -> Parts:
    """Compose a GPU cluster for each network."""
    for network in sorted({pool.fabric.infiniband.fabric for pool in joined(site)}):
        yield named(site, _key(network), GPU_CLUSTER, {"infinibandFabric": network})


def joined(site: Site[NebiusCluster]) -> list[Any]:
    """Return the pools that join a network."""
    return [pool for pool in site.owner.spec.node_pools if pool.fabric.infiniband is not None]


def membership(site: Site[NebiusCluster], pool: NebiusNodePool) -> dict[str, Any]:
    """Return the field that names the GPU cluster of a pool."""
    network = pool.fabric.infiniband
    return {"gpuCluster": {"idRef": {"name": site.name(_key(network.fabric))}}} if network else {}


def _key(network: str) -> str:
    return f"gpu-cluster-{network}"
