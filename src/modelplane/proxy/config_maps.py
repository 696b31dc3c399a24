"""ConfigMaps with a proxy's files: the controllers publish them, every gateway pod reads them.

All files are one compressed document, cut into chunks that are named for their
content. The index has the names of the chunks and the digest of the whole. It is
written after the chunks, and chunks that it no longer names are deleted afterwards.
One rule: a reader takes a configuration with the right digest, or none.
"""

import base64
import binascii
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.kube.resources import Object

INDEX = "modelplane-gateway"
"""Name of the index, and prefix of the names of the chunks."""

SELECTOR = f"{labels.GATEWAY}={DEFAULT_NAME}"
"""Label selector of the index and the chunks."""

CHUNK_BYTES = 512 * 1024
"""Half of the maximum of a ConfigMap (Kubernetes API, "ConfigMap")."""

_FORMAT = "gzip of json, 1"
_KEY = "files"


@dataclass(frozen=True, slots=True)
class Published:
    """ConfigMaps of one configuration."""

    chunks: tuple[Object, ...]
    index: Object


@dataclass(frozen=True, slots=True)
class Incomplete:
    """ConfigMaps that are not a complete configuration."""

    reason: str


def published(files: Mapping[str, str], namespace: str) -> Published:
    """Return the ConfigMaps of files; the same for the same files."""
    content = gzip.compress(msgspec.json.encode(files, order="sorted"), mtime=0)
    parts = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    chunks = tuple(
        _config_map(f"{INDEX}-{_digest(part)[:16]}", namespace)
        | {"binaryData": {_KEY: base64.b64encode(part).decode()}}
        for part in parts
    )
    data = {
        "format": _FORMAT,
        "chunks": "\n".join(chunk["metadata"]["name"] for chunk in chunks),
        "digest": _digest(content),
    }
    return Published(chunks, _config_map(INDEX, namespace) | {"data": data})


def read(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, str] | Incomplete | None:
    """Return the files in ConfigMaps; None if no configuration has been published."""
    known = {item["metadata"]["name"]: item for item in config_maps}
    if INDEX not in known:
        return None
    index = known[INDEX].get("data") or {}
    if index.get("format") != _FORMAT:
        return Incomplete(f"the configuration has another format ({index.get('format')}): use one version")
    names = index.get("chunks", "").splitlines()
    missing = [name for name in names if name not in known]
    if missing:
        return Incomplete(f"{len(missing)} of {len(names)} parts of the configuration are not there yet")
    try:
        content = b"".join(_content(known[name]) for name in names)
        if _digest(content) != index.get("digest"):
            return Incomplete("the parts of the configuration do not belong together")
        files = msgspec.json.decode(gzip.decompress(content), type=dict[str, str])
    except (binascii.Error, zlib.error, msgspec.DecodeError, EOFError, OSError) as error:
        return Incomplete(f"the configuration is damaged: {error}")
    outside = [path for path in files if not _is_within(path)]
    return (
        Incomplete(f"the configuration has a file outside its directory: {outside[0]}") if outside else files
    )


def _content(chunk: Mapping[str, Any]) -> bytes:
    return base64.b64decode((chunk.get("binaryData") or {}).get(_KEY, ""), validate=True)


def _is_within(path: str) -> bool:
    parsed = PurePosixPath(path)
    return not parsed.is_absolute() and ".." not in parsed.parts


def _config_map(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {labels.GATEWAY: DEFAULT_NAME}},
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
