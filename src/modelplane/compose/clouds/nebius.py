"""Clusters on Nebius Managed Kubernetes: the cluster, its network, fabric, nodes and storage.

A resource has the same name in Nebius and in Kubernetes. Nebius scales pools itself.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_cluster import PoolRole, SecretType
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.nebius_cluster import NebiusCluster, NebiusFabricType, NebiusNodePool
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.api.inference_class import NebiusRecipe
from modelplane.api.schema.fields import DNS_LABEL
from modelplane.api.schema.untyped import get_map
from modelplane.compose.clouds.kinds import (
    NEBIUS,
    NEBIUS_CLUSTER,
    NEBIUS_FILE_SYSTEM,
    NEBIUS_GPU_CLUSTER,
    NEBIUS_NETWORK,
    NEBIUS_NODE_GROUP,
    NEBIUS_SUBNET,
    ManagedKind,
)
from modelplane.compose.clouds.nodes import (
    WITHOUT_LATE_INITIALIZATION,
    first_size_problems,
    label_and_taint,
    system_problems,
    taints,
    with_system,
    zone_problems,
)
from modelplane.compose.clouds.recipe import Inside, Recipe, describe_storage, list_kubeconfig
from modelplane.compose.clouds.site import ACCOUNT_KEY, Parts, Site, Spec
from modelplane.compose.composition import Desired

FROM_SECRET = "Secret"  # noqa: S105  the word, not a secret
"""Source of credentials that are in a Secret. Source: provider-upjet-nebius, ``ProviderConfig``."""

OF_NETWORK = {"useNetworkPools": True}
"""Addresses of the pools of the network, which Nebius chooses. Source: Modelplane."""

ENDPOINTS: dict[str, Any] = {"publicEndpoint": {}}
"""The control plane of the fleet reaches the cluster there. Source: Modelplane."""

PREEMPTIBLE: dict[str, Any] = {}
"""Present for preemptible nodes; it has no fields. Source: provider-upjet-nebius, NodeGroup."""

WRITABLE = "READ_WRITE"
"""Mode of its attachment. Source: Nebius API, ``AttachedFilesystemSpec.attach_mode``."""

TAG = "modelplane-cache"
"""Name of the device on nodes. Source: Modelplane."""

USER_DATA = "userData"
"""Key of the Secret with the cloud-init configuration; no other key of a Secret can be named.
Source: Modelplane."""


def find_problems(site: Site[NebiusCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    yield from system_problems(site.owner.spec.system_pool)
    for pool in list_joined_pools(site):
        network_id = pool.fabric.infiniband.fabric
        if not re.fullmatch(DNS_LABEL, network_id):
            yield f'pool "{pool.name}": "{network_id}" is not a fabric ID, such as fabric-2: correct it'
    yield from first_size_problems(site.owner.spec.node_pools)


def list_secrets(site: Site[NebiusCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig, which has no credential, and the credentials of the account to use with it."""
    return (*list_kubeconfig(site), *_list_account_secrets(site))


def describe_pool(asked: NodePool, recipe: NebiusRecipe) -> Mapping[str, Any]:
    """Return the fields of a pool that follow from its class and its fabric."""
    fields: dict[str, Any] = {
        "platform": recipe.platform,
        "preset": recipe.preset,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type, "driversPreset": recipe.drivers_preset},
    }
    joined = asked.build_interconnect()
    if joined.type is FabricType.INFINIBAND and joined.infiniband is not None:
        fields["fabric"] = {
            "type": str(NebiusFabricType.INFINIBAND),
            "infiniband": {"fabric": joined.infiniband.fabric},
        }
    return fields


def find_pool_problems(asked: NodePool) -> Iterator[str]:
    """Yield what Nebius lacks for a pool."""
    joined = asked.build_interconnect()
    if joined.type is FabricType.INFINIBAND and joined.infiniband is None:
        yield f"{NEBIUS.title} requires the InfiniBand network's ID: set fabric.infiniband.fabric"
    yield from zone_problems(NEBIUS.title, asked)


def _list_account_secrets(site: Site[NebiusCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the Secret with the credentials; the last known one if the configuration is not read."""
    for config in site.request.found(ACCOUNT_KEY):
        credentials = get_map(config, "spec", "credentials")
        secret = credentials.get("secretRef")
        if credentials.get("source") != FROM_SECRET or not secret:
            return ()
        return (_listed(site, secret["name"], secret["key"], secret.get("namespace", "")),)
    return tuple(
        _listed(site, known.name, known.key, known.namespace or "")
        for known in site.owner.status.secrets
        if known.type is SecretType.NEBIUS
    )


def _listed(site: Site[NebiusCluster], name: str, key: str, namespace: str) -> Mapping[str, str]:
    entry = {"type": str(SecretType.NEBIUS), "name": name, "key": key}
    own = site.owner.metadata.namespace
    return {**entry, "namespace": namespace} if namespace not in ("", own) else entry


def compose_network(site: Site[NebiusCluster]) -> Parts:
    """Compose the network and the subnet."""
    yield _compose_named(site, "network", NEBIUS_NETWORK, {})
    yield _compose_named(
        site,
        "subnet",
        NEBIUS_SUBNET,
        {"networkIdRef": {"name": site.name("network")}, "ipv4PrivatePools": OF_NETWORK},
    )


def compose_cluster(site: Site[NebiusCluster]) -> Parts:
    """Compose the cluster."""
    yield _compose_named(
        site,
        "cluster",
        NEBIUS_CLUSTER,
        {
            "controlPlane": {
                "version": site.owner.spec.kubernetes_version,
                "subnetIdRef": {"name": site.name("subnet")},
                "endpoints": ENDPOINTS,
            }
        },
        writeConnectionSecretToRef={"name": site.kubeconfig_secret},
    )


def compose_fabric(site: Site[NebiusCluster]) -> Parts:
    """Compose a GPU cluster for each network."""
    for network in sorted({pool.fabric.infiniband.fabric for pool in list_joined_pools(site)}):
        yield _compose_named(site, _key(network), NEBIUS_GPU_CLUSTER, {"infinibandFabric": network})


def list_joined_pools(site: Site[NebiusCluster]) -> list[Any]:
    """Return the pools that join a network."""
    return [pool for pool in site.owner.spec.node_pools if pool.fabric.infiniband is not None]


def _key(network: str) -> str:
    return f"gpu-cluster-{network}"


def compose_nodes(site: Site[NebiusCluster]) -> Parts:
    """Compose every pool."""
    spec = site.owner.spec
    for pool in with_system(spec.node_pools, NebiusNodePool, spec.system_pool):
        joined = pool.fabric.infiniband
        node_labels, tainted = label_and_taint(pool)
        node: dict[str, Any] = {"metadata": {"labels": node_labels}}
        if pool.role is PoolRole.GPU and pool.gpu is not None:
            node["gpuSettings"] = {"driversPreset": pool.gpu.drivers_preset}
        if pool.spot:
            node["preemptible"] = PREEMPTIBLE
        if tainted:
            node["taints"] = taints(tainted)
        yield _compose_named(
            site,
            f"nodegroup-{pool.name}",
            NEBIUS_NODE_GROUP,
            {
                "parentIdRef": {"name": site.name("cluster")},
                **_size(pool),
                "template": {
                    "resources": {"platform": pool.platform, "preset": pool.preset},
                    "bootDisk": {"type": site.owner.spec.boot_disk_type, "sizeGibibytes": pool.disk_size_gb},
                    **attachment(site),
                    **({"gpuCluster": {"idRef": {"name": site.name(_key(joined.fabric))}}} if joined else {}),
                    **node,
                },
            },
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
        )


def _size(pool: NebiusNodePool) -> dict[str, Any]:
    """Return the fixed size of a pool, or the bounds of its autoscaling, which begins with the fewest."""
    if pool.max_node_count is None:
        return {"fixedNodeCount": pool.node_count}
    fewest = pool.node_count if pool.min_node_count is None else pool.min_node_count
    return {"autoscaling": {"minNodeCount": fewest, "maxNodeCount": pool.max_node_count}}


def compose_storage(site: Site[NebiusCluster]) -> Parts:
    """Compose the file system."""
    settings = site.owner.spec.file_system
    yield _compose_named(
        site, "filesystem", NEBIUS_FILE_SYSTEM, {"type": settings.type, "sizeGibibytes": settings.size_gib}
    )


def attachment(site: Site[NebiusCluster]) -> dict[str, Any]:
    """Return the fields of a node that attach the file system, and mount it."""
    attached = {
        "attachMode": WRITABLE,
        "mountTag": TAG,
        "existingFilesystem": {"idRef": {"name": site.name("filesystem")}},
    }
    secret = site.owner.spec.file_system.cloud_init_secret
    mounted = {"cloudInitUserDataSecretRef": {"name": secret, "key": USER_DATA}} if secret else {}
    return {"filesystems": [attached], **mounted}


def describe_inside(site: Site[NebiusCluster]) -> Inside:
    """Return the driver and the StorageClass, if nodes mount the file system.

    Otherwise the driver would write to the disk of each node, and no other node would see the files.
    """
    if not site.owner.spec.file_system.cloud_init_secret:
        return Inside()
    shared = describe_storage(Cloud.NEBIUS, {}, VolumeBinding.WAIT_FOR_FIRST_CONSUMER)
    return Inside({ComponentName.MOUNTED_FILE_SYSTEM: {}}, shared)


def _compose_named(
    site: Site[NebiusCluster], key: str, kind: ManagedKind, for_provider: Spec, **spec: Any
) -> Desired:
    """Return a managed resource, with its name in Nebius among its fields."""
    return site.managed(key, kind, {"name": site.name(key), **for_provider}, **spec)


RECIPE = Recipe(
    source=Source.NEBIUS,
    title=NEBIUS.title,
    package="nebius",
    type=NebiusCluster,
    providers=NEBIUS.providers,
    account=NEBIUS.account,
    parts=(compose_network, compose_cluster, compose_fabric, compose_nodes, compose_storage),
    problems=find_problems,
    pool=describe_pool,
    pool_problems=find_pool_problems,
    secrets=list_secrets,
    fabrics=frozenset({FabricType.INFINIBAND}),
    reads_account=lambda _owner: True,
    inside=describe_inside,
)
"""Its row in `table.py`."""
