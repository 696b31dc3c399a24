# ruff: noqa: INP001  a script, not a package
"""The files with which an operator installs Modelplane in a new Crossplane, in this order."""

import textwrap

from modelplane.crossplane.package.metadata import to_yaml
from modelplane.crossplane.package.package_installation import build_installation
from modelplane.crossplane.package.prerequisites import render_prerequisites

_PURPOSES = """\
The provider's options: watch what is on inference clusters, and keep the data of Secrets out of the status of
Objects.

The provider, which writes to inference clusters. Leave it out where it is installed already: Crossplane
refuses a second one under another name.

The provider that installs the charts of serving stacks on inference clusters. Leave it out where it is
installed already.

The function, which composes every kind. Compositions call it by this name, which Crossplane derives from the
address.

The Configuration: Modelplane's kinds, and their Compositions.
"""
"""Of each object of the installation, separated by empty lines."""


def build_getting_started() -> dict[str, str]:
    """Return the content of each file, by name."""
    explained = zip(_PURPOSES.split("\n\n"), build_installation(), strict=True)
    texts = (f"{_comment(purpose)}{to_yaml(document)}" for purpose, document in explained)
    return {"prerequisites.yaml": render_prerequisites(), "configuration.yaml": "---\n".join(texts)}


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 100))
