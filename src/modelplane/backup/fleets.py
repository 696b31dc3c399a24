"""The fleet on an API server, as far as a backup or a restore may deal with it."""

from collections.abc import Sequence

from modelplane.compose.definition_owner import crossplane_owns
from modelplane.compose.kinds import COMPOSED
from modelplane.install.steps.refusals import Refused
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

MANAGER = "modelplane-restore"
"""The field manager of a restore."""

_CROSSPLANE = (
    "Crossplane reconciles this fleet, and a backup does not have Crossplane's own objects: back up the "
    "whole control plane, see docs/how-to/backup.md"
)


async def installed(client: Client) -> Sequence[Object]:
    """Return the definitions of Modelplane's kinds there. Raises ``Refused`` if they are Crossplane's."""
    names = (kind.definition for kind in COMPOSED)
    asked = [await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]
    found = [each for each in asked if each is not None]
    if any(map(crossplane_owns, found)):
        raise Refused(_CROSSPLANE)
    return found
