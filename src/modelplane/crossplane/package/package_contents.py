"""Contents of the packages: plain objects, built from the kinds and the packages' addresses.

One rule: a Composition has the name of its XRD, such as ``modelreplicas.modelplane.ai``, so that the
composer of a child knows the name of its Composition.

A Configuration can contain only XRDs, Compositions, activation policies and operations
(``NewConfigurationLinter`` in crossplane-runtime's ``pkg/xpkg/lint.go``). Roles and namespaces are therefore
prerequisites, which an operator applies.
"""

from dataclasses import dataclass

from modelplane.api.kinds import Kind
from modelplane.api.schema.xrd import build_xrd
from modelplane.compose.clouds.kinds import CONTRIB
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.kinds import COMPOSED as SHIPPED
from modelplane.crossplane.package.metadata import (
    CONFIGURATION,
    FUNCTION,
    Dependency,
    Document,
    PackageKind,
    Registry,
    Version,
    installed_name,
    metadata,
)
from modelplane.crossplane.package.touched import COMPOSED

STEP = "modelplane"
"""The one step of every pipeline."""

PROVIDER_KUBERNETES = f"{CONTRIB}/provider-kubernetes"
"""The address of the provider that writes to inference clusters."""

PROVIDER_VERSION = Version("1.3.0")
"""The minimum version of that provider."""

PROVIDER_HELM = f"{CONTRIB}/provider-helm"
"""The address of the provider that installs charts on inference clusters."""

HELM_VERSION = Version("1.4.0")
"""The minimum version of that provider."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One package: its repository, and its objects, the description first."""

    repository: str
    documents: tuple[Document, ...]

    @property
    def kind(self) -> PackageKind:
        """The kind of package."""
        return PackageKind(self.documents[0]["kind"])

    @property
    def name(self) -> str:
        """The name in the package's metadata."""
        return str(self.documents[0]["metadata"]["name"])


def function() -> Contents:
    """Return the function's package, without its runtime."""
    description = "Composes every kind of Modelplane."
    about = metadata(PackageKind.FUNCTION, "modelplane-function", description, capabilities=("composition",))
    return Contents(FUNCTION, (about,))


def configuration(registry: Registry, version: Version) -> Contents:
    """Return the Configuration: the kinds, their Compositions and their dependencies."""
    address = registry.address(FUNCTION)
    about = metadata(
        PackageKind.CONFIGURATION,
        "modelplane",
        "A control plane for AI inference across a fleet of GPU clusters.",
        (
            Dependency(PackageKind.FUNCTION, address, version.patches),
            Dependency(PackageKind.PROVIDER, PROVIDER_KUBERNETES, PROVIDER_VERSION.or_newer),
            Dependency(PackageKind.PROVIDER, PROVIDER_HELM, HELM_VERSION.or_newer),
        ),
    )
    return Contents(
        CONFIGURATION,
        (
            about,
            activation_policy(
                "modelplane", tuple(resource.definition for resource in COMPOSED if resource.managed)
            ),
            *(definition(kind) for kind in SHIPPED),
            *(composition(kind, installed_name(address)) for kind in SHIPPED),
        ),
    )


def cloud_configuration(recipe: Recipe) -> Contents:
    """Return the package of one cloud: its providers, and the policy that activates their kinds.

    The providers of a cloud are hundreds of kinds and several pods, so a fleet on one cloud installs only
    those, and the Configuration depends on none of them.
    """
    name = f"modelplane-{recipe.package}"
    providers = tuple(
        Dependency(PackageKind.PROVIDER, provider.package, Version.parse(provider.version).or_newer)
        for provider in recipe.providers
    )
    about = metadata(
        PackageKind.CONFIGURATION,
        name,
        f"What Modelplane needs to provision clusters on {recipe.title}.",
        providers,
    )
    definitions = tuple(kind.definition for provider in recipe.providers for kind in provider.kinds)
    return Contents(recipe.package, (about, activation_policy(name, definitions)))


def packages(registry: Registry, version: Version) -> tuple[Contents, ...]:
    """Return every package that is published."""
    clouds = (cloud_configuration(recipe) for recipe in RECIPES.values())
    return (configuration(registry, version), function(), *clouds)


def definition(kind: Kind) -> Document:
    """Return the XRD of a kind, with its default Composition."""
    document = build_xrd(kind)
    reference = {"defaultCompositionRef": {"name": document["metadata"]["name"]}}
    return document | {"spec": document["spec"] | reference}


def composition(kind: Kind, function_name: str) -> Document:
    """Return the Composition of a kind."""
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": kind.definition},
        "spec": {
            "compositeTypeRef": {"apiVersion": kind.api_version, "kind": kind.name},
            "mode": "Pipeline",
            "pipeline": [{"step": STEP, "functionRef": {"name": function_name}}],
        },
    }


def activation_policy(name: str, definitions: tuple[str, ...]) -> Document:
    """Return the policy that activates managed resources."""
    return {
        "apiVersion": "apiextensions.crossplane.io/v1alpha1",
        "kind": "ManagedResourceActivationPolicy",
        "metadata": {"name": name},
        "spec": {"activate": sorted(definitions)},
    }
