"""The environment and arguments of a container (core/v1 ``EnvVar``, ``EnvFromSource``), and the GPUs it sees.

Pure: what a container refers to is fetched before and passed in.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kube.resources import Object
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.local_devices import NVIDIA_DRIVER, DiscoveredDevice

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class References:
    """The Secrets and ConfigMaps that a container names."""

    secrets: frozenset[str]
    config_maps: frozenset[str]

    def __or__(self, other: "References") -> "References":
        return References(self.secrets | other.secrets, self.config_maps | other.config_maps)


@dataclass(frozen=True, slots=True)
class Sources:
    """The referenced ConfigMaps and Secrets by name; missing objects are absent."""

    secrets: Mapping[str, Object] = field(default_factory=dict)
    config_maps: Mapping[str, Object] = field(default_factory=dict)


def list_references(container: Mapping[str, Any]) -> References:
    """Return the names of the objects to fetch for a container."""
    sources = [entry.get("valueFrom", {}) for entry in container.get("env", ())]
    bulk = container.get("envFrom", ())
    return References(
        frozenset(_names(sources, "secretKeyRef")) | frozenset(_names(bulk, "secretRef")),
        frozenset(_names(sources, "configMapKeyRef")) | frozenset(_names(bulk, "configMapRef")),
    )


def _names(sources: Iterable[Mapping[str, Any]], key: str) -> Iterator[str]:
    return (source[key].get("name", "") for source in sources if key in source)


def resolve(
    container: Mapping[str, Any], pod: Mapping[str, Any], address: str, node_address: str, sources: Sources
) -> dict[str, str] | Rejected:
    """Return a container's own variables; ``Rejected`` for the first that has no value.

    ``address`` is the address that the pod binds, which is what ``status.podIP`` means to it.
    """
    environment: dict[str, str] = {}
    for bulk in container.get("envFrom", ()):
        variables = _bulk(bulk, sources)
        if isinstance(variables, Rejected):
            return variables
        environment |= variables
    for entry in container.get("env", ()):
        name = entry["name"]
        if "valueFrom" not in entry:
            environment[name] = expand(entry.get("value", ""), environment)
            continue
        value = _value(name, entry["valueFrom"], pod, (address, node_address), sources)
        if isinstance(value, Rejected):
            return value
        if value is not None:
            environment[name] = value
    return environment


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` that is known; ``$$`` is a plain ``$``, an unknown name stays as written."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else environment.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def _bulk(bulk: Mapping[str, Any], sources: Sources) -> dict[str, str] | Rejected:
    prefix = bulk.get("prefix", "")
    for key, objects, read in (
        ("secretRef", sources.secrets, _secret_data),
        ("configMapRef", sources.config_maps, _config_map_data),
    ):
        if key in bulk:
            data = _data(bulk[key], _KINDS[key], objects, read)
            if isinstance(data, Rejected):
                return data
            return {prefix + name: value for name, value in data.items()}
    return {}


def _value(
    name: str, source: Mapping[str, Any], pod: Mapping[str, Any], addresses: tuple[str, str], sources: Sources
) -> str | Rejected | None:
    what = f'cannot set variable "{name}"'
    if "fieldRef" in source:
        path = source["fieldRef"]["fieldPath"]
        value = find_field(path, pod, addresses)
        return refuse(f'{what}: field "{path}" is not supported in a variable') if value is None else value
    for key, objects, read in (
        ("secretKeyRef", sources.secrets, _secret_data),
        ("configMapKeyRef", sources.config_maps, _config_map_data),
    ):
        if key in source:
            reference = source[key]
            data = _data(reference, _KINDS[key], objects, read)
            if isinstance(data, Rejected):
                return data
            if reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            return refuse(
                f'{what}: {_KINDS[key]} "{reference.get("name", "")}" has no key "{reference["key"]}"',
                "add it, or mark the reference optional",
            )
    return refuse(f"{what}: a value from {', '.join(sorted(source))} requires a container runtime")


_KINDS = {
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
}


def _data(
    reference: Mapping[str, Any],
    kind: str,
    objects: Mapping[str, Object],
    read: Callable[[Object], dict[str, str]],
) -> dict[str, str] | Rejected:
    name = reference.get("name", "")
    if name in objects:
        return read(objects[name])
    if reference.get("optional"):
        return {}
    return refuse(f'cannot set the environment: {kind} "{name}" does not exist', "create it")


def refuse(fault: str, remedy: str = "") -> Rejected:
    """Return the rejection of a container whose configuration refers to something that is not there."""
    return Rejected(WaitingReason.CONFIG_ERROR, detail=fault, remedy=remedy)


def _secret_data(secret: Object) -> dict[str, str]:
    data = secret.get("data") or {}
    return {key: base64.b64decode(value).decode(errors="surrogateescape") for key, value in data.items()}


def _config_map_data(config_map: Object) -> dict[str, str]:
    return dict(config_map.get("data") or {})


def find_field(path: str, pod: Mapping[str, Any], addresses: tuple[str, str]) -> str | None:
    """Return a field of a pod that its containers can be told; None for another one.

    ``addresses`` are the one that the pod binds and its node's.
    """
    address, node_address = addresses
    metadata, spec = pod["metadata"], pod["spec"]
    if entry := _ENTRY.fullmatch(path):
        return str((metadata.get(entry[1]) or {}).get(entry[2], ""))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": node_address,
        "status.hostIPs": node_address,
        "status.podIP": address,
        "status.podIPs": address,
    }
    return str(fields[path]) if path in fields else None


def list_device_variables(
    machine: Iterable[DiscoveredDevice], allocated: Iterable[DiscoveredDevice]
) -> dict[str, str]:
    """Return the variables that make an engine see its allocated devices and no others."""
    if not any(device.driver == NVIDIA_DRIVER for device in machine):
        return {}
    uuids = [device.uuid for device in allocated if device.driver == NVIDIA_DRIVER]
    # CUDA numbers devices by speed; a uuid is independent of the order.
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "NVIDIA_VISIBLE_DEVICES": ",".join(uuids) or "void"}
