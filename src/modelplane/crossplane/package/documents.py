"""Objects as a stream of YAML documents, the same bytes each time."""

from collections.abc import Iterable
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
