"""References: the Secrets and ConfigMaps that objects name, which are not Modelplane's.

They are found by the names of fields, so that a new field of that form needs no line here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN

SECRET: Final = "Secret"  # noqa: S105 - a kind, not a secret
CONFIG_MAP: Final = "ConfigMap"

_FIELDS: Final = {
    "secretRef": SECRET,
    "identitySecretRef": SECRET,
    "installerSecretRef": SECRET,
    "authSecret": SECRET,
    "secretKeyRef": SECRET,
    "cloudInitSecret": SECRET,
    "imagePullSecrets": SECRET,
    "certificateRefs": SECRET,
    "secrets": SECRET,
    "configMapKeyRef": CONFIG_MAP,
}

_NAME: Final = re.compile(DNS_SUBDOMAIN)
_NAMESPACE: Final = re.compile(DNS_LABEL)
_LONGEST: Final = 253


class Named(NamedTuple):
    """A Secret or ConfigMap that an object names."""

    kind: str
    namespace: str
    name: str


def can_exist(namespace: str, name: str) -> bool:
    """Return True if an object may have a namespace and a name: others could be paths of the API server."""
    fits = _NAMESPACE.fullmatch(namespace) and _NAME.fullmatch(name)
    return bool(fits) and max(len(namespace), len(name)) <= _LONGEST


def find_named(item: Mapping[str, Any]) -> frozenset[Named]:
    """Return the Secrets and ConfigMaps that an object names.

    Those of a cluster-scoped object are in the system's namespace.
    """
    namespace = item["metadata"].get("namespace") or SYSTEM_NAMESPACE
    return frozenset(_in(item.get("spec"), namespace))


def _in(value: Any, namespace: str) -> Iterator[Named]:
    if isinstance(value, Mapping):
        for field, content in value.items():
            if kind := _FIELDS.get(field):
                for item in content if isinstance(content, list) else [content]:
                    yield from _reference(kind, item, namespace)
            yield from _in(content, namespace)
    elif isinstance(value, list):
        for item in value:
            yield from _in(item, namespace)


def _reference(kind: str, content: Any, namespace: str) -> Iterator[Named]:
    name = content.get("name") if isinstance(content, Mapping) else content
    if isinstance(name, str):
        named_namespace = content.get("namespace") if isinstance(content, Mapping) else None
        place = named_namespace if isinstance(named_namespace, str) and named_namespace else namespace
        if can_exist(place, name):
            yield Named(kind, place, name)
