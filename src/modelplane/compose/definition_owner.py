"""Ownership of our kinds: by our controllers, or by Crossplane.

Both compose the same children, so running both would let them overwrite each other. One rule: the owner of a
kind's CustomResourceDefinition reconciles its objects. Crossplane owns the definitions that it created or
adopted (``ownerReferences``); every other one is the controllers'.
"""

from collections.abc import Iterable
from enum import StrEnum

from modelplane.api.listing import listing
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list

CRD_API_VERSION = "apiextensions.k8s.io/v1"
"""Of CustomResourceDefinitions."""

GUIDE = "docs/how-to/move-to-crossplane.md"
"""The page about moving a fleet from one to the other."""

_GROUP = "apiextensions.crossplane.io/"
_KIND = "CompositeResourceDefinition"


class DefinitionOwner(StrEnum):
    """Owner of a kind's CustomResourceDefinition, which reconciles the objects of the kind."""

    CONTROLLERS = "controllers"
    CROSSPLANE = "crossplane"


_REFUSALS = {
    DefinitionOwner.CONTROLLERS: "the controllers must not run: Crossplane owns",
    DefinitionOwner.CROSSPLANE: "Crossplane must not compose: it does not own",
}


def crossplane_owns(definition: Object) -> bool:
    """Return True if Crossplane owns a CustomResourceDefinition."""
    return any(
        reference.get("controller") is True
        and reference["kind"] == _KIND
        and reference["apiVersion"].startswith(_GROUP)
        for reference in get_list(definition, "metadata", "ownerReferences")
    )


def owned_by_other(
    definitions: Iterable[Object], own: DefinitionOwner = DefinitionOwner.CONTROLLERS
) -> Rejected | None:
    """Return why ``own`` must not reconcile the kinds of some definitions; None if it may."""
    others = [
        definition["metadata"]["name"]
        for definition in definitions
        if crossplane_owns(definition) != (own is DefinitionOwner.CROSSPLANE)
    ]
    if not others:
        return None
    noun = "CustomResourceDefinition" + ("s" if len(others) > 1 else "")
    return Rejected(detail=f"{_REFUSALS[own]} {noun} {listing(others)}", remedy=f"see {GUIDE}")
