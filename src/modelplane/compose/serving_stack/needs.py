"""Needs of children: the children that must be deleted after a child, by their keys.

They are in an annotation, because a deletion composes nothing.
"""

from collections.abc import Iterable

from modelplane.api import labels
from modelplane.api.meta import Object


def needing(*keys: str) -> dict[str, str]:
    """Return the annotation of a child that needs others."""
    return {labels.NEEDS: ",".join(sorted(map(str, keys)))} if keys else {}


def needed_by(children: Iterable[Object]) -> frozenset[str]:
    """Return the keys of the children that others still need."""
    named = (str((child["metadata"].get("annotations") or {}).get(labels.NEEDS, "")) for child in children)
    return frozenset(key for keys in named for key in keys.split(",") if key)
