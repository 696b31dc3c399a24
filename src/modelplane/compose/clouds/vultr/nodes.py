"""The nodes of a Vultr cluster: a pool for each of the settings but the system pool."""

from modelplane.api.clouds.vultr_cluster import VultrCluster
from modelplane.compose.clouds.nodes import WITHOUT_LATE_INITIALIZATION, at_first, others
from modelplane.compose.clouds.site import Parts, Site, Waiting
from modelplane.compose.clouds.vultr.kinds import NODE_POOL
from modelplane.compose.clouds.vultr.pools import nodes_of, size


def compose(site: Site[VultrCluster]) -> Parts:
    """Compose every pool, once there is a cluster: Vultr adds none to one that it is still making."""
    for pool in others(site.owner.spec.node_pools):
        key = f"nodepool-{pool.name}"
        if not site.text("cluster", "id"):
            yield Waiting(key, "the id of the cluster, which Vultr reports")
            continue
        pool_size, first_size = size(pool)
        yield site.managed(
            key,
            NODE_POOL,
            {
                "clusterIdRef": {"name": site.name("cluster")},
                **nodes_of(pool),
                **pool_size,
            },
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **at_first(first_size),
        )
