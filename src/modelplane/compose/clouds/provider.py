"""Providers: the packages for Crossplane that make a cloud's resources, and the kinds that each brings.

Watches, permissions, activation policies, the packages of a cloud and the condition that names a missing one
follow from these values.
"""

from typing import Final, NamedTuple

CONTRIB: Final = "xpkg.crossplane.io/crossplane-contrib"
"""Registry of the community's providers, in every version and without an account."""

UPBOUND: Final = "xpkg.upbound.io/upbound"
"""Registry of Upbound's own providers. It gives out the latest version without an account."""


class ManagedKind(NamedTuple):
    """A kind of managed resources."""

    group: str
    kind: str
    plural: str
    version: str = "v1beta1"

    @property
    def api_version(self) -> str:
        """Its ``apiVersion`` in manifests."""
        return f"{self.group}/{self.version}"

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


class Provider(NamedTuple):
    """A provider's package."""

    package: str
    version: str
    """The earliest version that has every field that is composed."""
    kinds: tuple[ManagedKind, ...] = ()
    """The kinds that are composed, the smallest definition first: it stands for the package."""


class Account(NamedTuple):
    """The kinds that hold the credentials of a cloud: ``ProviderConfig`` and ``ClusterProviderConfig``."""

    group: str
    version: str = "v1beta1"

    @property
    def api_version(self) -> str:
        """Their ``apiVersion`` in manifests."""
        return f"{self.group}/{self.version}"
