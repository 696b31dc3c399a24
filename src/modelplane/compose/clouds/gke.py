"""Clusters on Google Kubernetes Engine: the cluster, its network, identity, nodes and storage.

Counts of nodes are over all zones of a pool. Where GKE counts nodes of each zone, they are divided. GKE
scales pools itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cloud_cluster import PoolRole, SecretType
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.gke_cluster import GKECluster, GKENodePool
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.inference_class import GKERecipe
from modelplane.api.schema.untyped import get_map
from modelplane.compose.clouds import address_ranges
from modelplane.compose.clouds.kinds import (
    GKE,
    GKE_CLUSTER,
    GKE_NETWORK,
    GKE_NODE_POOL,
    GKE_PROJECT_IAM_MEMBER,
    GKE_PROJECT_SERVICE,
    GKE_SERVICE_ACCOUNT,
    GKE_SERVICE_ACCOUNT_KEY,
    GKE_SUBNETWORK,
)
from modelplane.compose.clouds.nodes import (
    WITHOUT_LATE_INITIALIZATION,
    at_first,
    system_problems,
    taints,
    with_system,
)
from modelplane.compose.clouds.recipe import Inside, Recipe, describe_storage, list_kubeconfig
from modelplane.compose.clouds.site import ACCOUNT_KEY, Parts, Site, Waiting

UNKNOWN_PROJECT = "the project: set spec.project, or the projectID of the provider configuration"
"""In messages."""

POOL_OF_PROJECT = ".svc.id.goog"
"""End of the workload identity pool of a project. Source: GKE, "About Workload Identity Federation"."""

NO_SUBNETS = False
"""No subnet in every region. Source: Google Cloud VPC, "Subnets", custom mode."""

PODS = "pods"
"""Name of the subnet's range for pods. Source: Modelplane."""

SERVICES = "services"
"""Name of the subnet's range for Services. Source: Modelplane."""

LONGEST_ACCOUNT = 30
"""Characters of a service account's id. Source: Google Cloud IAM, "Create service accounts"."""

ROLE = "roles/container.admin"
"""Access to the objects of clusters. It is a role in the project, so it reaches every cluster there, because
IAM has none for a single cluster. Source: GKE, "Create allow policies"."""

ACCOUNT_PRIVATE_KEY = "private_key"
"""Key of the connection Secret. Source: provider-upjet-gcp, connection details of ServiceAccountKey."""

LONGEST_NAME = 40
"""Characters of names of clusters and node pools. Source: GKE API, ``Cluster.name``, ``NodePool.name``."""

NO_DEFAULT_POOL = {"removeDefaultNodePool": True, "initialNodeCount": 1}
"""The default pool cannot be omitted, only removed again. Source: Terraform google provider,
``container_cluster``, ``remove_default_node_pool``."""

FILESTORE = {"gcpFilestoreCsiDriverConfig": {"enabled": True}}
"""The driver of shared volumes for model caches. Source: GKE, "Access Filestore instances"."""

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""Nodes may use every API that their service account may. Source: GKE, "Access scopes in GKE"."""

DRA_LABEL = {"cloud.google.com/gke-nvidia-gpu-dra-driver": "true"}
"""The autoscaler counts on the DRA driver, so that a pool scales from zero. Source: GKE, "Prepare GPU
infrastructure for DRA workloads"."""

DEFAULT_ZONES = 3
"""Zones of a pool that names none. Source: GKE, "Regional clusters"."""

FILESTORE_API = "file.googleapis.com"
"""The API of Filestore. Source: Filestore, "Before you begin"."""

STAYS_ENABLED = {"disableOnDestroy": False}
"""Others in the project may use the API too. Source: Terraform google provider, ``project_service``."""


def find_problems(site: Site[GKECluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    ranges = spec.networking
    yield from address_ranges.problems(
        {"nodeCidr": ranges.node_cidr, "podCidr": ranges.pod_cidr, "serviceCidr": ranges.service_cidr}
    )
    if not site.owner.metadata.name[:1].isalpha():
        yield "the cluster's name begins with a digit, but names on Google Cloud must begin with a letter"
    existing = find_project_of_cluster(site)
    if spec.project and existing and spec.project != existing:
        yield f"project is {spec.project}, but the cluster is in {existing}: a cluster can't be moved"
    yield from system_problems(spec.system_pool)
    for pool in with_system(spec.node_pools, GKENodePool, spec.system_pool):
        for zone in pool.zones:
            if zone.rpartition("-")[0] != spec.region:
                yield f'pool "{pool.name}": zone {zone} is not in region {spec.region}'
        if _is_fixed(pool) and pool.max_node_count % _zones(pool):
            yield (
                f'pool "{pool.name}": {pool.max_node_count} nodes can\'t be divided evenly among the '
                "pool's zones: make nodeCount a multiple of the number of zones, or use one pool per zone"
            )


def list_secrets(site: Site[GKECluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig, which has no credential, and the key of the account to use with it."""
    return (
        *list_kubeconfig(site),
        {"type": str(SecretType.GOOGLE), "name": key_secret(site), "key": ACCOUNT_PRIVATE_KEY},
    )


def describe_pool(_pool: NodePool, recipe: GKERecipe) -> Mapping[str, Any]:
    """Return the fields of a pool that follow from its class."""
    return {
        "machineType": recipe.machine_type,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type, "acceleratorCount": recipe.accelerator.count},
    }


def name_project(site: Site[GKECluster]) -> dict[str, Any]:
    """Return the field that names the project; none leaves it to the provider configuration."""
    project = site.owner.spec.project
    return {"project": project} if project else {}


def find_project(site: Site[GKECluster]) -> str:
    """Return the project; empty if it is not known yet.

    A cluster that exists already does not follow a change of the provider configuration.
    """
    if site.owner.spec.project:
        return site.owner.spec.project
    if existing := find_project_of_cluster(site):
        return existing
    for config in site.request.found(ACCOUNT_KEY):
        return str(config.get("spec", {}).get("projectID", ""))
    return ""


def find_project_of_cluster(site: Site[GKECluster]) -> str:
    """Return the project that the cluster was composed for; empty if it was not yet."""
    spec = get_map(site.request.observed, "cluster", "spec", "forProvider")
    return str(spec.get("workloadIdentityConfig", {}).get("workloadPool", "")).removesuffix(POOL_OF_PROJECT)


def compose_network(site: Site[GKECluster]) -> Parts:
    """Compose the VPC and its subnet."""
    spec = site.owner.spec
    ranges = spec.networking
    yield site.managed("network", GKE_NETWORK, {**name_project(site), "autoCreateSubnetworks": NO_SUBNETS})
    yield site.managed(
        "subnet",
        GKE_SUBNETWORK,
        {
            **name_project(site),
            "region": spec.region,
            "networkRef": {"name": site.name("network")},
            "ipCidrRange": ranges.node_cidr,
            "secondaryIpRange": [
                {"rangeName": PODS, "ipCidrRange": ranges.pod_cidr},
                {"rangeName": SERVICES, "ipCidrRange": ranges.service_cidr},
            ],
        },
    )


def compose_identity(site: Site[GKECluster]) -> Parts:
    """Compose the service account, its key, and its role once its name is known."""
    account = site.name("sa", limit=LONGEST_ACCOUNT)
    # Of an object whose only field is taken back, server-side apply leaves null, which the schema refuses.
    about = {"displayName": site.owner.metadata.name}
    yield site.managed("service-account", GKE_SERVICE_ACCOUNT, {**about, **name_project(site)}, account)
    yield site.managed(
        "service-account-key",
        GKE_SERVICE_ACCOUNT_KEY,
        {"serviceAccountIdRef": {"name": account}},
        writeConnectionSecretToRef={"name": key_secret(site)},
    )
    member, in_project = site.text("service-account", "member"), find_project(site)
    if not in_project:
        yield Waiting("iam-binding", UNKNOWN_PROJECT)
    elif not member:
        yield Waiting("iam-binding", "the name of the service account, which Google Cloud reports")
    else:
        yield site.managed(
            "iam-binding", GKE_PROJECT_IAM_MEMBER, {"project": in_project, "role": ROLE, "member": member}
        )


def key_secret(site: Site[GKECluster]) -> str:
    """Return the name of the Secret with the key."""
    return site.name("sa-key")


def compose_cluster(site: Site[GKECluster]) -> Parts:
    """Compose the cluster once its project is known, which its workload identity pool is named after."""
    spec = site.owner.spec
    in_project = find_project(site)
    if not in_project:
        yield Waiting("cluster", UNKNOWN_PROJECT)
        return
    yield site.managed(
        "cluster",
        GKE_CLUSTER,
        {
            **name_project(site),
            **NO_DEFAULT_POOL,
            "location": spec.region,
            "deletionProtection": spec.deletion_protection,
            "networkRef": {"name": site.name("network")},
            "subnetworkRef": {"name": site.name("subnet")},
            "ipAllocationPolicy": {"clusterSecondaryRangeName": PODS, "servicesSecondaryRangeName": SERVICES},
            "releaseChannel": {"channel": str(spec.release_channel)},
            "minMasterVersion": spec.kubernetes_version,
            "workloadIdentityConfig": {"workloadPool": in_project + POOL_OF_PROJECT},
            "addonsConfig": FILESTORE,
        },
        cluster_name(site),
        writeConnectionSecretToRef={"name": site.kubeconfig_secret},
    )


def cluster_name(site: Site[GKECluster]) -> str:
    """Return the name of the cluster."""
    return site.name("gke", limit=LONGEST_NAME)


def compose_nodes(site: Site[GKECluster]) -> Parts:
    """Compose every pool."""
    spec = site.owner.spec
    for pool in with_system(spec.node_pools, GKENodePool, spec.system_pool):
        locations = {"nodeLocations": list(pool.zones)} if pool.zones else {}
        yield site.managed(
            f"nodepool-{pool.name}",
            GKE_NODE_POOL,
            {
                **name_project(site),
                "location": site.owner.spec.region,
                "clusterRef": {"name": cluster_name(site)},
                **locations,
                **_size(pool),
                "nodeConfig": _node(site, pool),
            },
            site.name("nodepool", pool.name, limit=LONGEST_NAME),
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            # The autoscaler changes the number of nodes in each zone at first, which is rounded up.
            **at_first({} if _is_fixed(pool) else {"initialNodeCount": -(-pool.node_count // _zones(pool))}),
        )


def _is_fixed(pool: GKENodePool) -> bool:
    return pool.min_node_count == pool.max_node_count


def _zones(pool: GKENodePool) -> int:
    return len(pool.zones) or DEFAULT_ZONES


def _size(pool: GKENodePool) -> dict[str, Any]:
    """Return the number of nodes in each zone of a pool of fixed size, or the limits over all zones."""
    if _is_fixed(pool):
        return {"nodeCount": pool.max_node_count // _zones(pool)}
    return {
        "autoscaling": {"totalMinNodeCount": pool.min_node_count, "totalMaxNodeCount": pool.max_node_count}
    }


def _node(site: Site[GKECluster], pool: GKENodePool) -> dict[str, Any]:
    spec = site.owner.spec
    node: dict[str, Any] = {
        "machineType": pool.machine_type,
        "diskSizeGb": pool.disk_size_gb,
        "imageType": spec.image_type,
        "oauthScopes": SCOPES,
        "labels": {labels.POOL: pool.name},
    }
    if pool.spot:
        node["spot"] = True
    if pool.taints:
        node["taint"] = taints(pool.taints)
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node["labels"] |= {labels.GPU: pool.gpu.accelerator_type, **DRA_LABEL}
        node["guestAccelerator"] = [
            {
                "type": pool.gpu.accelerator_type,
                "count": pool.gpu.accelerator_count,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": spec.gpu_driver},
            }
        ]
    return node


def compose_storage(site: Site[GKECluster]) -> Parts:
    """Enable the API of Filestore."""
    yield site.managed(
        "projectservice-filestore",
        GKE_PROJECT_SERVICE,
        {**name_project(site), **STAYS_ENABLED, "service": FILESTORE_API},
    )


def describe_inside(site: Site[GKECluster]) -> Inside:
    """Return the StorageClass, whose instances are in the network of the cluster."""
    parameters = {"tier": site.owner.spec.filestore.tier, "network": site.name("network")}
    filestore = describe_storage(Cloud.GKE, parameters, VolumeBinding.IMMEDIATE, allow_volume_expansion=True)
    return Inside(storage=filestore)


RECIPE = Recipe(
    source=Source.GKE,
    title=GKE.title,
    package="gcp",
    type=GKECluster,
    providers=GKE.providers,
    account=GKE.account,
    parts=(compose_network, compose_identity, compose_cluster, compose_nodes, compose_storage),
    problems=find_problems,
    pool=describe_pool,
    secrets=list_secrets,
    reads_account=lambda owner: not owner.spec.project,
    inside=describe_inside,
)
"""Its row in `table.py`."""
