"""Recipe: the row of a cloud. It says of what a cluster of the cloud is composed, and what is inside."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from modelplane.api.clouds.cloud_cluster import SecretType
from modelplane.api.clouds.cloud_rows import Cloud, get_traits
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.serving_stack import StackStorage, VolumeBinding
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.api.meta import Model, kind_name
from modelplane.compose.clouds.kinds import Account, Provider
from modelplane.compose.clouds.site import Parts, Site

KUBECONFIG = "kubeconfig"
"""Key of the connection Secret. Source: the providers, connection details of the kind of clusters; on EKS,
of ClusterAuth."""


class Inside(msgspec.Struct, frozen=True):
    """The components that only clusters of a cloud need, and its StorageClass."""

    components: Mapping[ComponentName, Mapping[str, Any]] = {}
    """Their values for this cluster, by name."""
    storage: StackStorage | None = None
    """None if the cloud has none, or while a parameter is unknown."""


def describe_storage(
    cloud: Cloud, parameters: Mapping[str, str], binding: VolumeBinding, **settings: Any
) -> StackStorage:
    """Return the StorageClass of a cloud."""
    row = get_traits(cloud)
    return StackStorage(
        name=row.cache_storage,
        provisioner=row.cache_provisioner,
        parameters=parameters,
        volume_binding_mode=binding,
        **settings,
    )


def list_kubeconfig(site: Site[Any]) -> tuple[Mapping[str, str], ...]:
    """Return the Secret with the kubeconfig, as an item of ``status.secrets``."""
    return ({"type": str(SecretType.KUBECONFIG), "name": site.kubeconfig_secret, "key": KUBECONFIG},)


class Recipe(msgspec.Struct, frozen=True):
    """A cloud: the kind of its clusters, their providers, and the modules that compose them."""

    source: Source
    title: str
    """Its name in sentences."""
    package: str
    """The name of the package with its providers, such as gcp."""
    type: type[Model]
    """The kind of its clusters."""
    providers: tuple[Provider, ...]
    account: Account
    parts: tuple[Callable[[Site[Any]], Parts], ...]
    """Network, identity, cluster, nodes and storage."""
    problems: Callable[[Site[Any]], Iterable[str]]
    """Yields what is wrong with the settings of a cluster: each the fault and the remedy."""
    pool: Callable[[NodePool, Any], Mapping[str, Any]]
    """Returns the fields of a pool that follow from the recipe of its class."""
    pool_problems: Callable[[NodePool], Iterable[str]] = lambda _pool: ()
    """Yields what the cloud lacks for a pool: each the fault and the remedy."""
    secrets: Callable[[Site[Any]], tuple[Mapping[str, str], ...]] = list_kubeconfig
    """Returns the Secrets for access to a cluster (``status.secrets``)."""
    fabrics: frozenset[FabricType] = frozenset()
    """The networks between nodes that its pools can have."""
    reads_account: Callable[[Any], bool] | None = None
    """Returns True if a value of the provider configuration is composed. None: none ever is."""
    inside: Callable[[Site[Any]], Inside] = lambda _site: Inside()
    """Returns what its clusters need inside, beside what every serving stack has."""
    file_system: Callable[[Site[Any]], str] = lambda _site: ""
    """Returns the id of the file system for ModelCaches that only the cloud knows; empty if there is none."""

    @property
    def kind(self) -> str:
        """The kind of its clusters in manifests."""
        return kind_name(self.type)

    def needs_account(self, cluster: Any) -> bool:
        """Return True if a value of a cluster's provider configuration is composed."""
        return self.reads_account is not None and self.reads_account(cluster)

    @property
    def key(self) -> str:
        """The key of the cluster among the children of an InferenceCluster."""
        return f"{self.source.lower()}-cluster"

    @property
    def settings(self) -> str:
        """The field with the cloud's settings in an InferenceCluster, and with its recipe in a class."""
        return self.source.lower()
