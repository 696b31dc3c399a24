"""A proxy's files as ConfigMaps or Secrets: the controllers publish them, every gateway pod reads them.

All files are one compressed document, cut into chunks that are named for their content. The index has the
names of the chunks and the digest of the whole. It is written after the chunks, and chunks that it no longer
names are deleted afterwards. One rule: a reader takes a configuration with the right digest, or none.

Private files can be long and change often. They are compressed in pieces that end where the content has a
mark, so that the change of one key makes one or two other chunks, and not all that come after it.
"""

import base64
import binascii
import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.gateway.envoy.envoy_names import CLUSTERS, MUTUAL_TLS, TLS
from modelplane.gateway.envoy.module_filters import PRIVATE
from modelplane.gateway.envoy.token_filters import TOKENS
from modelplane.kube import resources
from modelplane.kube.resources import Object, Resource

INDEX = "modelplane-gateway"
"""Name of the index, and prefix of the names of the chunks."""

SELECTOR = f"{labels.GATEWAY}={DEFAULT_NAME}"
"""Label selector of the index and the chunks."""

CHUNK_BYTES = 512 * 1024
"""Half of the maximum of a ConfigMap or Secret (Kubernetes API, "ConfigMap")."""

_PRIVATE = (PRIVATE, TLS, MUTUAL_TLS)
"""Folders of the files that are published as Secrets, as are clusters with tokens."""

_LEAST_PIECE_BYTES = 1024 * 1024
_MOST_PIECE_BYTES = 4 * _LEAST_PIECE_BYTES
_PIECE_END = re.compile(rb"000")
"""It is in hashes, about every 14 KB."""

_FORMAT = "gzip of json, 1"
_KEY = "files"


class Channel(Enum):
    """The kind of the objects that have the files."""

    PUBLIC = resources.CONFIG_MAPS
    PRIVATE = resources.SECRETS

    @property
    def resource(self) -> Resource:
        """The resource of the objects."""
        return self.value

    def _object(self, name: str, namespace: str, field_: str, data: Mapping[str, str]) -> Object:
        metadata = {"name": name, "namespace": namespace, "labels": {labels.GATEWAY: DEFAULT_NAME}}
        return {"apiVersion": "v1", "kind": self.resource.kind, "metadata": metadata, field_: dict(data)}

    def build_chunk(self, name: str, namespace: str, content: bytes) -> Object:
        """Return the object of a chunk."""
        binary = "data" if self is Channel.PRIVATE else "binaryData"
        return self._object(name, namespace, binary, {_KEY: base64.b64encode(content).decode()})

    def read_content(self, chunk: Mapping[str, Any]) -> bytes:
        """Return the content of a chunk. Raises ``binascii.Error``."""
        binary = "data" if self is Channel.PRIVATE else "binaryData"
        return base64.b64decode((chunk.get(binary) or {}).get(_KEY, ""), validate=True)

    def build_index(self, namespace: str, texts: Mapping[str, str]) -> Object:
        """Return the index."""
        if self is Channel.PRIVATE:
            texts = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        return self._object(INDEX, namespace, "data", texts)

    def read_texts(self, index: Mapping[str, Any]) -> dict[str, str]:
        """Return what an index says. Raises ``binascii.Error`` or ``UnicodeDecodeError``."""
        data: dict[str, str] = index.get("data") or {}
        if self is Channel.PUBLIC:
            return data
        return {name: base64.b64decode(text, validate=True).decode() for name, text in data.items()}


@dataclass(frozen=True, slots=True)
class Published:
    """Objects of one configuration."""

    chunks: tuple[Object, ...]
    index: Object
    compressed: Mapping[str, bytes] = field(default_factory=dict)
    """Its pieces, by their digest, so that the next configuration compresses only what is new."""


@dataclass(frozen=True, slots=True)
class Read:
    """A configuration that is complete."""

    files: dict[str, str]
    private: tuple[str, ...] = ()
    """Files that it needs from the private channel."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Objects that are not a complete configuration."""

    reason: str


def build_objects(
    files: Mapping[str, str],
    namespace: str,
    channel: Channel = Channel.PUBLIC,
    *,
    private: Iterable[str] = (),
    former: Published | None = None,
) -> Published:
    """Return the objects of files; the same for the same files. ``private`` names those that are Secrets."""
    content = msgspec.json.encode(files, order="sorted")
    pieces = tuple(_pieces(content)) if channel is Channel.PRIVATE else (content,)
    digests = [_digest(piece) for piece in pieces]
    compressed_before = former.compressed if former else {}
    compressed = {
        digest: compressed_before[digest] if digest in compressed_before else gzip.compress(piece, mtime=0)
        for digest, piece in zip(digests, pieces, strict=True)
    }
    whole = [compressed[digest] for digest in digests]
    parts = [
        archive[at : at + CHUNK_BYTES] for archive in whole for at in range(0, len(archive), CHUNK_BYTES)
    ]
    chunks = tuple(channel.build_chunk(f"{INDEX}-{_digest(part)[:16]}", namespace, part) for part in parts)
    texts = {
        "format": _FORMAT,
        "chunks": "\n".join(chunk["metadata"]["name"] for chunk in chunks),
        "digest": _digest(b"".join(parts)),
    }
    if names := sorted(private):
        texts["private"] = "\n".join(names)
    return Published(chunks, channel.build_index(namespace, texts), compressed)


def _pieces(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        mark = _PIECE_END.search(content, at + _LEAST_PIECE_BYTES, at + _MOST_PIECE_BYTES)
        end = mark.end() if mark else at + _MOST_PIECE_BYTES
        yield content[at:end]
        at = end


def read(objects: Iterable[Mapping[str, Any]], channel: Channel = Channel.PUBLIC) -> Read | Incomplete | None:
    """Return the files in objects; None if no configuration has been published."""
    by_name = {item["metadata"]["name"]: item for item in objects}
    if INDEX not in by_name:
        return None
    try:
        return _read(channel.read_texts(by_name[INDEX]), by_name, channel)
    except (binascii.Error, zlib.error, msgspec.DecodeError, EOFError, OSError, UnicodeDecodeError) as error:
        return Incomplete(f"the configuration is damaged: {error}")


def _read(
    index: Mapping[str, str], by_name: Mapping[str, Mapping[str, Any]], channel: Channel
) -> Read | Incomplete:
    if (written := index.get("format")) != _FORMAT:
        return Incomplete(f"the configuration has another format ({written}): use one version")
    names = index.get("chunks", "").splitlines()
    missing = [name for name in names if name not in by_name]
    if missing:
        return Incomplete(f"{len(missing)} of {len(names)} parts of the configuration do not exist yet")
    content = b"".join(channel.read_content(by_name[name]) for name in names)
    if _digest(content) != index.get("digest"):
        return Incomplete("the parts of the configuration do not belong together")
    files = msgspec.json.decode(gzip.decompress(content), type=dict[str, str])
    private = tuple(index.get("private", "").splitlines())
    outside = [path for path in (*files, *private) if not _is_within(path)]
    if outside:
        return Incomplete(f"the configuration has a file outside its directory: {outside[0]}")
    return Read(files, private)


def is_private(path: str, content: str = "") -> bool:
    """Return True if a file is published in Secrets."""
    return path.startswith(_PRIVATE) or (path == CLUSTERS and f'"{TOKENS}"' in content)


def _is_within(path: str) -> bool:
    parsed = PurePosixPath(path)
    return not parsed.is_absolute() and ".." not in parsed.parts


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
