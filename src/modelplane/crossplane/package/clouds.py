"""Packages of clouds: the providers of each cloud in a package of its own.

One rule: a fleet on one cloud installs one cloud's providers. A cloud's provider is hundreds of kinds and
several pods, so none is a dependency of the Configuration itself.
"""

from dataclasses import dataclass

from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.table import RECIPES
from modelplane.crossplane.package.metadata import Dependency, PackageKind
from modelplane.crossplane.package.package_addresses import Version


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud: the kind of its clusters, and the providers and kinds that compose them."""

    name: str
    title: str
    kind: str
    providers: tuple[Dependency, ...]
    activates: tuple[str, ...]
    """The definitions of the managed resources of its clusters, such as ``clusters.eks.aws...``."""


def _cloud(recipe: Recipe) -> Cloud:
    """Return a cloud by its recipe."""
    providers = tuple(
        Dependency(PackageKind.PROVIDER, provider.package, Version.parse(provider.version).or_newer)
        for provider in recipe.providers
    )
    definitions = tuple(kind.definition for provider in recipe.providers for kind in provider.kinds)
    return Cloud(recipe.package, recipe.title, recipe.kind, providers, definitions)


CLOUDS = tuple(map(_cloud, RECIPES.values()))
"""Every cloud."""
