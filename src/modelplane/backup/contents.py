"""Contents: the kinds of objects that a backup has, which objects of each, and what these refer to.

Everything else on a control plane is made again by the controllers or by the installation, or is not
Modelplane's. One rule: a restore writes only objects that this table admits, whatever the file says.

The Secrets and ConfigMaps that objects name are not Modelplane's. They are found by the names of fields, so
that a new field of that form needs no line here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from modelplane.api import labels
from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN
from modelplane.compose.definition_owner import crossplane_owns
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers.fleet_resources import of_row, resource_of_kind
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import CONFIG_MAPS, NAMESPACES, Object, Resource
from modelplane.proxy import ledgers
from modelplane.user_error import UserError

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

MANAGER = "modelplane-restore"
"""The field manager of a restore."""


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
    return frozenset(_in(item.get("spec"), item["metadata"].get("namespace") or SYSTEM_NAMESPACE))


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


@dataclass(frozen=True, slots=True)
class Content:
    """A kind of objects that a backup has."""

    resource: Resource
    selector: str = ""
    """Label selector of the objects; empty for all."""
    namespace: str = ""
    """The only namespace of the objects; empty for any."""
    has_status: bool = False
    keeps_bytes: bool = False
    """True if the API server keeps the bytes of a part as they were sent, and compares them later."""
    is_secret: bool = False
    """True if who reads an object could use what it has, so that a file has only its name or encrypts it."""
    optional: bool = False
    """True if an API server may lack the kind although Modelplane is installed there."""

    def can_hold(self, item: Mapping[str, Any]) -> bool:
        """Return True if an object of the kind belongs into a backup."""
        metadata = item["metadata"]
        item_labels = metadata.get("labels") or {}
        key, _, value = self.selector.partition("=")
        in_place = not self.namespace or metadata.get("namespace") == self.namespace
        return in_place and (not key or item_labels.get(key) == value)


def list_contents() -> tuple[Content, ...]:
    """Return every kind, those that others need first. Read it at run time, as the table of children."""
    return (
        Content(NAMESPACES),
        *(
            Content(resource_of_kind(kind.type), has_status=True, is_secret=kind.type is ModelKey)
            for kind in COMPOSED
        ),
        *(
            Content(
                of_row(row),
                f"{labels.MANAGED_BY}=modelplane",
                has_status=not row.built_in,
                keeps_bytes=row.built_in,
                optional=not row.built_in,
            )
            for row in rows(Place.CONTROL_PLANE)
        ),
        # What keys have used of their budgets.
        Content(CONFIG_MAPS, ledgers.SELECTOR, GATEWAY_NAMESPACE),
    )


def list_secret_kinds() -> dict[str, Resource]:
    """Return the kinds whose objects a file has encrypted or by name only."""
    return {content.resource.kind: content.resource for content in list_contents() if content.is_secret}


def find_content(item: Mapping[str, Any]) -> Content | None:
    """Return the row of an object's kind; None if a backup has no objects of it."""
    named = (item.get("apiVersion"), item.get("kind"))
    rows_of = (
        content
        for content in list_contents()
        if (content.resource.api_version, content.resource.kind) == named
    )
    return next(rows_of, None)


async def list_installed(client: Client) -> Sequence[Object]:
    """Return the definitions of Modelplane's kinds there. Raises ``UserError`` if they are Crossplane's."""
    names = (kind.definition for kind in COMPOSED)
    asked = [await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]
    definitions = [definition for definition in asked if definition is not None]
    if any(map(crossplane_owns, definitions)):
        raise UserError(
            "Crossplane reconciles this fleet, and a backup doesn't include Crossplane's own objects: back "
            "up the whole control plane, as docs/how-to/backup.md describes"
        )
    return definitions
