"""The CustomResourceDefinitions of an installation: those of the kinds that the controllers compose.

A kind that nobody composes would only raise hopes. The Gateway API is not among them: its routes are
on the inference clusters, where a gateway's own installation brings it.
"""

from modelplane.api.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.install.identity import labels
from modelplane.kube.resources import Object

KEPT = {"helm.sh/resource-policy": "keep"}
"""Tells Helm to leave an object where it is: with a definition, every object of its kind would go."""


def definitions() -> list[Object]:
    """Return the definitions, as they are applied."""
    return [_labelled(crd(kind)) for kind in COMPOSED]


def _labelled(definition: Object) -> Object:
    about = {**definition["metadata"], "labels": labels(), "annotations": dict(KEPT)}
    return {**definition, "metadata": about}
