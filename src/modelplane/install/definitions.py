"""The CustomResourceDefinitions of an installation: those of the kinds that the controllers compose.

Objects of a kind that is not composed would have no effect, so such kinds are not installed. The Gateway
API is not installed either: its routes are on inference clusters, where the gateway's own installation
provides it.
"""

from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.install.installation_names import labels
from modelplane.kube.resources import Object

KEPT = {"helm.sh/resource-policy": "keep"}
"""Makes Helm keep an object: deleting a definition would delete every object of its kind."""


def definitions() -> list[Object]:
    """Return the definitions, as they are applied."""
    return [_labelled(crd(kind)) for kind in COMPOSED]


def _labelled(definition: Object) -> Object:
    about = {**definition["metadata"], "labels": labels(), "annotations": dict(KEPT)}
    return {**definition, "metadata": about}
