"""Contents: the kinds of objects that a backup has, and which objects of each.

Everything else on a control plane is made again by the controllers or by the installation, or is not
Modelplane's. One rule: a restore writes only objects that this table admits, whatever the file says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.api.model_key import ModelKey
from modelplane.compose.definition_owner import crossplane_owns
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers.fleet_resources import of_row, resource_of_kind
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import CONFIG_MAPS, NAMESPACES, Object, Resource
from modelplane.proxy import ledgers
from modelplane.user_error import UserError

_OURS = f"{labels.MANAGED_BY}=modelplane"

MANAGER = "modelplane-restore"
"""The field manager of a restore."""

_CROSSPLANE = (
    "Crossplane reconciles this fleet, and a backup does not have Crossplane's own objects: back up the "
    "whole control plane, see docs/how-to/backup.md"
)


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
                _OURS,
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
        raise UserError(_CROSSPLANE)
    return definitions
