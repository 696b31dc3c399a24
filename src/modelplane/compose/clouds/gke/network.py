"""The network of a GKE cluster: a VPC with one subnet, and ranges in it for pods and Services."""

from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.compose.clouds.gke import project
from modelplane.compose.clouds.gke.kinds import NETWORK, SUBNETWORK
from modelplane.compose.clouds.site import Parts, Site

NO_SUBNETS = False
"""No subnet in every region. Source: Google Cloud VPC, "Subnets", custom mode."""

PODS = "pods"
"""Name of the subnet's range for pods. Source: reference behaviour, section 13."""

SERVICES = "services"
"""Name of the subnet's range for Services. Source: reference behaviour, section 13."""


def compose(site: Site[GKECluster]) -> Parts:
    """Compose the VPC and its subnet."""
    spec = site.owner.spec
    ranges = spec.networking
    yield site.managed("network", NETWORK, {**project.given(site), "autoCreateSubnetworks": NO_SUBNETS})
    yield site.managed(
        "subnet",
        SUBNETWORK,
        {
            **project.given(site),
            "region": spec.region,
            "networkRef": {"name": site.name("network")},
            "ipCidrRange": ranges.node_cidr,
            "secondaryIpRange": [
                {"rangeName": PODS, "ipCidrRange": ranges.pod_cidr},
                {"rangeName": SERVICES, "ipCidrRange": ranges.service_cidr},
            ],
        },
    )
