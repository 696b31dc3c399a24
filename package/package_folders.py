# ruff: noqa: INP001  a script, not a package
"""The packages as folders with a file for each object, for ``crossplane xpkg build``."""

from modelplane import __version__
from modelplane.api.kinds import KINDS
from modelplane.crossplane.package.metadata import Document, Registry, Version, to_yaml
from modelplane.crossplane.package.package_contents import packages
from modelplane.crossplane.package.prerequisites import render_prerequisites

_FILES = {
    "Configuration": "crossplane.yaml",
    "Function": "crossplane.yaml",
    "ManagedResourceActivationPolicy": "activation-policy.yaml",
    "CompositeResourceDefinition": "definitions/{definition}.yaml",
    "Composition": "compositions/{definition}.yaml",
}
"""Path of an object in the folder of its package."""


def project() -> dict[str, str]:
    """Return the content of each file, by path."""
    files = {
        f"{package.repository}/{_path(document)}": to_yaml(document)
        for package in packages(Registry(), Version(__version__))
        for document in package.documents
    }
    return files | {"prerequisites.yaml": render_prerequisites()}


def _path(document: Document) -> str:
    name = document["metadata"]["name"]
    return _FILES[document["kind"]].format(definition=_DEFINITIONS.get(name, name))


_DEFINITIONS = {kind.definition: f"{kind.group}_{kind.plural}" for kind in KINDS}
"""File names, which sort by group like those of the CRDs."""
