"""Metadata of a package: the object of ``meta.pkg.crossplane.io`` at its beginning."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

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
