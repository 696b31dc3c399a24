"""Duplicate objects: of two with one name, an API server keeps the later.

One rule: a duplicate within a file is a mistake. Files may be alternatives, so the command decides about
duplicates in different files.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from modelplane.offline.files.diagnostics import ObjectName, Problem
from modelplane.offline.files.manifest_objects import Manifest


class _First(NamedTuple):
    """First position of an object, and its content."""

    file: str
    where: str
    content: int


class Repeats(msgspec.Struct):
    """Objects read so far."""

    alternatives: bool
    """True if different files may have different objects of one name."""
    _known: dict[tuple[str, ObjectName], _First] = msgspec.field(default_factory=dict)

    def find_problems(self, manifest: Manifest) -> Iterator[Problem]:
        """Reject an object of our kinds that replaces an earlier one."""
        if manifest.kind is None or not manifest.name.name:
            return
        file = manifest.source.name
        # Its hash, because the trees of a large fleet would fill the memory.
        this = _First(file, manifest.where, 0 if self.alternatives else hash(repr(manifest.node.to_plain())))
        first = self._known.setdefault((file if self.alternatives else "", _identity(manifest)), this)
        if first is this or (first.file != file and first.content == this.content):
            return
        message = (
            f"the same object is at {first.where} already: the later one replaces it, so remove or rename one"
        )
        yield manifest.report(("metadata", "name"), message)


def _identity(manifest: Manifest) -> ObjectName:
    namespaced = manifest.kind is not None and manifest.kind.namespaced
    # As with kubectl, an object without a namespace is in the one of its context.
    namespace = (manifest.name.namespace or "default") if namespaced else ""
    return replace(manifest.name, namespace=namespace)
