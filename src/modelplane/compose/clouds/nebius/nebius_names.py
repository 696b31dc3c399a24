"""Names in Nebius: a resource has the same name there and in Kubernetes."""

from typing import Any

from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.compose.clouds.provider import ManagedKind
from modelplane.compose.clouds.site import Site, Spec
from modelplane.compose.composition import Desired


def named(site: Site[NebiusCluster], key: str, kind: ManagedKind, for_provider: Spec, **spec: Any) -> Desired:
    """Return a managed resource, with its name in Nebius among its fields."""
    return site.managed(key, kind, {"name": site.name(key), **for_provider}, **spec)
