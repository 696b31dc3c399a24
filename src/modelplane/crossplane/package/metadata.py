"""Metadata of a package: the object of ``meta.pkg.crossplane.io`` at its beginning.

One rule: names follow from addresses. A Configuration names its dependencies by address only. Crossplane
installs each under the path of its repository, without the registry's host, made a DNS label: so
``ghcr.io/modelplane/function`` becomes the Function ``modelplane-function``, and that is what a Composition
has to call it. (Crossplane v2.3: ``NewPackage`` in ``internal/controller/pkg/resolver/reconciler.go`` and
``ToDNSLabel`` in ``internal/xpkg/name.go``.)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import yaml

from modelplane.user_error import UserError

DEFAULT_PREFIX = "ghcr.io/modelplane"
"""Registry and path of Modelplane's published packages."""

FUNCTION = "function"
CONFIGURATION = "configuration"

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]+)?"
_PREFIX = re.compile(rf"(?P<host>{_HOST})(?P<path>(?:/{_COMPONENT})*)")
_SEMVER = re.compile(
    r"v?(?P<version>(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)"
    r"(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)"
)
_LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry, and the path of the packages' repositories in it."""

    prefix: str = DEFAULT_PREFIX

    @classmethod
    def parse(cls, prefix: str) -> Self:
        """Return the registry for a name from the command line."""
        found = _PREFIX.fullmatch(prefix)
        # Without a dot or a port, tools take a host for a path on Docker Hub.
        if found is None or not set(found["host"]) & {".", ":"}:
            raise UserError(
                f'cannot publish packages below "{prefix}": it is not a registry\'s host and a path in lower '
                f"case: name both, as in {DEFAULT_PREFIX}"
            )
        return cls(prefix)

    def address(self, repository: str) -> str:
        """Return the address of one package, without a version."""
        return f"{self.prefix}/{repository}"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of Modelplane's packages."""

    number: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the version for a name from the command line, with or without a leading v."""
        found = _SEMVER.fullmatch(text)
        if found is None:
            raise UserError(
                f'"{text}" is not a version of a package: Crossplane finds packages by semantic versions: '
                "write one, such as 0.1.0 or 1.2.0-rc.1"
            )
        return cls(found["version"])

    @property
    def tag(self) -> str:
        """The tag of the packages."""
        return f"v{self.number}"

    @property
    def or_newer(self) -> str:
        """The constraint for this version and later ones of the same major version."""
        major = int(self.number.partition(".")[0])
        return self._below(f"{major + 1}.0.0")

    @property
    def patches(self) -> str:
        """The constraint for this version and later ones of the same minor version.

        A Configuration installs the newest function that it admits, and must not get that of a later release.
        """
        major, minor, _ = self.number.split(".", 2)
        return self._below(f"{major}.{int(minor) + 1}.0")

    def _below(self, next_: str) -> str:
        # A constraint without a pre-release matches none, and both constraints must match.
        last = "-0" if "-" in self.number else ""
        return f">=v{self.number}, <v{next_}{last}"


def installed_name(address: str) -> str:
    """Return the name under which Crossplane installs a dependency."""
    path = address.partition("/")[2]
    known = (_LABEL.get(character, character) for character in path[:_LABEL_LENGTH])
    return "".join(character for character in known if re.fullmatch("[a-z0-9-]", character)).strip("-")


_LABEL = {".": "-", "/": "-", ":": "-"}

Document = dict[str, Any]
"""An object in its wire form."""

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # the base is chosen at run time
    """Writes a value out each time it occurs, where YAML would refer to the first."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def to_yaml(document: Document | list[Document]) -> str:
    """Return an object, or a list of them, as YAML."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110))


def stream(documents: Iterable[Document]) -> str:
    """Return objects as one YAML stream."""
    return "---\n".join(to_yaml(document) for document in documents)


API_VERSION = "meta.pkg.crossplane.io/v1"
CROSSPLANE = ">=v2.3.0"
"""The first release whose XRDs can have a scale subresource; earlier ones drop it silently."""

LICENSE = "Apache-2.0"

_ANNOTATION = "meta.crossplane.io/"


class PackageKind(StrEnum):
    """The kinds of package."""

    CONFIGURATION = "Configuration"
    FUNCTION = "Function"
    PROVIDER = "Provider"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency of a package, and its compatible versions."""

    kind: PackageKind
    address: str
    versions: str

    def document(self) -> Document:
        """Return it in the form of a package's metadata."""
        return {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": str(self.kind),
            "package": self.address,
            "version": self.versions,
        }


def metadata(
    kind: PackageKind,
    name: str,
    description: str,
    dependencies: tuple[Dependency, ...] = (),
    capabilities: tuple[str, ...] = (),
) -> Document:
    """Return the metadata of a package."""
    spec: Document = {"crossplane": {"version": CROSSPLANE}}
    if capabilities:
        spec["capabilities"] = list(capabilities)
    if dependencies:
        spec["dependsOn"] = [dependency.document() for dependency in dependencies]
    return {
        "apiVersion": API_VERSION,
        "kind": str(kind),
        "metadata": {
            "name": name,
            "annotations": {
                f"{_ANNOTATION}description": description,
                f"{_ANNOTATION}license": LICENSE,
            },
        },
        "spec": spec,
    }
