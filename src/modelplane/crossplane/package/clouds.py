"""Packages of clouds: the providers of each cloud in a package of its own.

One rule: a fleet on one cloud installs one cloud's providers. A cloud's provider is hundreds of kinds and
several pods, so none is a dependency of the Configuration itself.

A cloud without kinds to activate is not composed by this version. Its row makes the kind of its clusters
known. It has no package, because its providers would only cost resources.
"""

from dataclasses import dataclass

from modelplane.compose.clouds.aks.recipe import RECIPE as AKS
from modelplane.compose.clouds.eks.recipe import RECIPE as EKS
from modelplane.compose.clouds.gke.recipe import RECIPE as GKE
from modelplane.compose.clouds.nebius.recipe import RECIPE as NEBIUS
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.vultr.recipe import RECIPE as VULTR
from modelplane.crossplane.package.addresses import Version
from modelplane.crossplane.package.metadata import Dependency, PackageKind


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud: the kind of its clusters, and the providers and kinds that compose them."""

    name: str
    title: str
    kind: str
    providers: tuple[Dependency, ...]
    activates: tuple[str, ...] = ()
    """The definitions of the managed resources of its clusters, such as ``clusters.eks.aws...``."""


def _composed(name: str, recipe: Recipe) -> Cloud:
    """Return a cloud that is composed, by its recipe."""
    providers = tuple(
        Dependency(PackageKind.PROVIDER, each.package, Version.parse(each.version).or_newer)
        for each in recipe.providers
    )
    definitions = tuple(kind.definition for each in recipe.providers for kind in each.kinds)
    return Cloud(name, recipe.title, recipe.kind, providers, definitions)


CLOUDS = (
    _composed("gcp", GKE),
    _composed("aws", EKS),
    _composed("azure", AKS),
    _composed("nebius", NEBIUS),
    _composed("vultr", VULTR),
)


def packaged(clouds: tuple[Cloud, ...] = CLOUDS) -> tuple[Cloud, ...]:
    """Return the clouds that have a package: those that are composed."""
    return tuple(cloud for cloud in clouds if cloud.activates)
