"""Saving Crossplane writes that it would make of each child.

Crossplane counts the changes of an object and of its children, an update as two, and looks away from the
object for minutes after a hundred at once. A new child gives rise to some before it has said anything: each
composite gets a finalizer, a composition and a revision of it, each managed resource its external name and
its provider's finalizer. What Crossplane would come to is known here, so a child has it from the start.
"""

from typing import Any

from modelplane.api.kinds import KINDS
from modelplane.compose.composition import Object
from modelplane.crossplane.function import remote
from modelplane.crossplane.function.owned_fields import has_finalizer_of_ours

FINALIZER = "composite.apiextensions.crossplane.io"
"""What Crossplane puts on every composite."""

PROVIDERS_FINALIZER = "finalizer.managedresource.crossplane.io"
"""What a provider puts on every managed resource whose cluster it has reached."""

_EXTERNAL_NAME = "crossplane.io/external-name"

_OURS = {(kind.api_version, kind.name): kind for kind in KINDS}


def settled(
    manifest: Object, name: str, observed: Object | None, revision: str, *, reached: bool = False
) -> Object:
    """Return a child with what Crossplane would write into it.

    ``name`` is what a managed resource is called that has no name yet; ``revision`` the latest of the
    composition of a composite, empty where it is not known; ``reached`` whether the cluster of a managed
    resource answers. What is there already stays as it is.
    """
    if remote.is_remote(manifest):
        return _managed(manifest, name, observed, reached)
    kind = _OURS.get((manifest["apiVersion"], manifest["kind"]))
    if kind is None:
        return manifest
    chosen: dict[str, Any] = {"compositionRef": {"name": kind.definition}}
    if revision:
        chosen["compositionRevisionRef"] = {"name": revision}
    there = (observed or {}).get("spec", {}).get("crossplane", {})
    if there.get("compositionRef", chosen["compositionRef"]) != chosen["compositionRef"]:
        chosen.pop("compositionRevisionRef", None)  # that of another composition
    chosen |= {
        field: there[field] for field in ("compositionRef", "compositionRevisionRef") if field in there
    }
    metadata = manifest["metadata"]
    # One that is on its way out has lost it, and must not get it again.
    if observed is None or FINALIZER in observed["metadata"].get("finalizers", ()):
        metadata = {**metadata, "finalizers": [FINALIZER]}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "crossplane": chosen}}


def _managed(manifest: Object, name: str, observed: Object | None, reached: bool) -> Object:
    called = name if observed is None else str(observed["metadata"]["name"])
    metadata = {
        **manifest.get("metadata", {}),
        "name": called,
        "annotations": {_EXTERNAL_NAME: called},
    }
    # Of a cluster that does not answer, what was never made would be held for nothing. One that was given
    # the finalizer has it from nobody else; one that is on its way out has lost it.
    given = reached if observed is None else has_finalizer_of_ours(observed, PROVIDERS_FINALIZER)
    if given:
        metadata["finalizers"] = [PROVIDERS_FINALIZER]
    return {**manifest, "metadata": metadata}
