"""Content of volumes made of objects: ConfigMaps, Secrets, and the pod itself.

Pure: what a volume refers to is fetched before and passed in (Kubernetes, core/v1 ``KeyToPath``).
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kube.resources import Object
from modelplane.kubelet.runtime.container_environment import References, Sources, find_field, refuse

KINDS = frozenset({"configMap", "downwardAPI", "projected", "secret"})
"""The kinds of volumes that are made of objects."""

PROJECTED = frozenset({"configMap", "downwardAPI", "secret"})
"""Supported sources of a projected volume."""

_MODE = 0o644
_OWNER = 0o700
"""Mask of file modes: files are readable by their owner only."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int


def list_references(volumes: Iterable[Mapping[str, Any]]) -> References:
    """Return the names of the objects to fetch for volumes."""
    parts = [part for volume in volumes for part in _parts(volume)]
    return References(
        frozenset(_name(body) for kind, body, _ in parts if kind == "secret"),
        frozenset(_name(body) for kind, body, _ in parts if kind == "configMap"),
    )


def build_files(
    volume: Mapping[str, Any], pod: Mapping[str, Any], sources: Sources
) -> dict[str, File] | Rejected:
    """Return the files of one volume by their relative paths; ``Rejected`` if one is missing."""
    files: dict[str, File] = {}
    for kind, body, mode in _parts(volume):
        part = (
            _describe_pod(body, mode, pod)
            if kind == "downwardAPI"
            else _copy_object(kind, body, mode, sources)
        )
        if isinstance(part, Rejected):
            return refuse(f'cannot fill volume "{volume["name"]}": {part.detail}', part.remedy)
        files |= part
    return files


def _parts(volume: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Yield the sources of a volume: kind, specification, default mode of files."""
    projected = volume.get("projected")
    if projected is not None:
        for source in projected.get("sources", ()):
            for kind in PROJECTED & source.keys():
                yield kind, source[kind], projected.get("defaultMode", _MODE)
    for kind in PROJECTED & volume.keys():
        yield kind, volume[kind], volume[kind].get("defaultMode", _MODE)


def _name(body: Mapping[str, Any]) -> str:
    return str(body.get("secretName") or body.get("name", ""))


def _copy_object(
    kind: str, body: Mapping[str, Any], mode: int, sources: Sources
) -> dict[str, File] | Rejected:
    name, word = _name(body), {"secret": "Secret", "configMap": "ConfigMap"}[kind]
    source = (sources.secrets if kind == "secret" else sources.config_maps).get(name)
    if source is None:
        if body.get("optional"):
            return {}
        return refuse(f'{word} "{name}" does not exist', "create it, or mark it optional")
    data = _data(kind, source)
    if not body.get("items"):
        return {key: File(content, mode & _OWNER) for key, content in data.items()}
    files = {}
    for item in body["items"]:
        if item["key"] in data:
            files[item["path"]] = File(data[item["key"]], item.get("mode", mode) & _OWNER)
        elif not body.get("optional"):
            return refuse(
                f'{word} "{name}" has no key "{item["key"]}"', "add it, or mark the volume optional"
            )
    return files


def _data(kind: str, source: Object) -> dict[str, bytes]:
    encoded = source.get("data" if kind == "secret" else "binaryData") or {}
    data = {key: base64.b64decode(value) for key, value in encoded.items()}
    if kind == "configMap":
        data |= {key: value.encode() for key, value in (source.get("data") or {}).items()}
    return data


def _describe_pod(body: Mapping[str, Any], mode: int, pod: Mapping[str, Any]) -> dict[str, File] | Rejected:
    files = {}
    for item in body.get("items", ()):
        if "fieldRef" not in item:
            return refuse(f'"{item["path"]}" is not from a field of the pod', "use a fieldRef")
        path = item["fieldRef"]["fieldPath"]
        if path in {"metadata.labels", "metadata.annotations"}:
            entries = pod["metadata"].get(path.removeprefix("metadata."), {})
            value = "\n".join(
                f"{key}={json.dumps(entries[key], ensure_ascii=False)}" for key in sorted(entries)
            )
        else:
            field_of_pod = find_field(path, pod, ("", ""))
            if field_of_pod is None:
                return refuse(f'the field "{path}" is not one that a file can hold')
            value = field_of_pod
        files[item["path"]] = File(value.encode(), item.get("mode", mode) & _OWNER)
    return files
