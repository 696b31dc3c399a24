"""The file of ``--image-digests``: a YAML mapping of images to their digests.

One rule: a line that pins nothing is an error, because its author believes that it does.
"""

import re
from typing import TYPE_CHECKING

from modelplane.cli.errors import UserError
from modelplane.cli.manifest_files import read

if TYPE_CHECKING:
    from modelplane.offline.files.tree import Node

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def pinned(path: str, image: str) -> str:
    """Return the image that manifests name, with its digest from a file."""
    if "@" in image:
        raise UserError(f'"{image}" has a digest already: omit it, or --image-digests')
    lines = _mapping(path)
    for name, digest in lines.items():
        if name != image:
            raise _error(
                path, f'"{name}" is not pinned: the manifests pull only "{image}": remove it', digest
            )
        if not _DIGEST.fullmatch(str(digest.value)):
            raise _error(
                path, f'the digest of "{name}" must be "sha256:" and 64 digits of 0-9 and a-f', digest
            )
    if image not in lines:
        raise UserError(f'{path}: no digest of "{image}", which the manifests pull: add one')
    return f"{image}@{lines[image].value}"


def _mapping(path: str) -> "dict[str, Node]":
    from modelplane.offline.files.diagnostics import Unreadable
    from modelplane.offline.files.sources import Unopened
    from modelplane.offline.files.tree import documents

    [source] = read([path])
    if isinstance(source, Unopened):
        raise UserError(f"{path}: {source.why}")
    found = [*documents(source.text)]
    for document in found:
        if isinstance(document, Unreadable):
            raise UserError(f"{path}:{document.place.line}: {document.message}")
        for repeated in document.duplicates:
            raise UserError(f'{path}:{repeated.place.line}: "{repeated.path[-1]}" has two digests: keep one')
        if len(found) == 1 and isinstance(document.node.value, dict):
            return document.node.value
    raise UserError(f"{path}: not one mapping of images to digests: write a line IMAGE: sha256:DIGEST")


def _error(path: str, message: str, node: "Node") -> UserError:
    return UserError(f"{path}:{node.place.line}: {message}")
