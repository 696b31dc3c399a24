"""Economy: fields that Crossplane and its providers would add to a child, set from the start.

Crossplane counts the changes of an object and of its children, an update as two, and ignores the object for
minutes after a hundred at once. A new child causes several such changes: a composite gets a finalizer, a
composition and a revision, a managed resource its external name and its provider's finalizer. All of these
are known here, so the child is composed with them.
"""

from typing import Any

from modelplane.api import labels
from modelplane.api.kinds import KINDS
from modelplane.api.meta import Object
from modelplane.crossplane.function import remote
from modelplane.crossplane.function.owned_fields import has_finalizer_of_ours

FINALIZER = "composite.apiextensions.crossplane.io"
"""The finalizer that Crossplane adds to every composite."""

PROVIDERS_FINALIZER = "finalizer.managedresource.crossplane.io"
"""The finalizer that a provider adds to every managed resource on a cluster that answers."""

_OURS = {(kind.api_version, kind.name): kind for kind in KINDS}


def settled(
    manifest: Object, name: str, observed: Object | None, revision: str, *, reached: bool = False
) -> Object:
    """Return a child with the fields that Crossplane would add.

    ``name`` is the name for a managed resource that has none yet; ``revision`` is the latest revision of a
    composite's composition, empty if unknown; ``reached`` tells whether the cluster of a managed resource
    answers. Observed values are kept.
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
        chosen.pop("compositionRevisionRef", None)  # a revision of another composition
    chosen |= {
        field: there[field] for field in ("compositionRef", "compositionRevisionRef") if field in there
    }
    metadata = manifest["metadata"]
    # A terminating child has lost the finalizer and must not get it again.
    if observed is None or FINALIZER in observed["metadata"].get("finalizers", ()):
        metadata = {**metadata, "finalizers": [FINALIZER]}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "crossplane": chosen}}


def _managed(manifest: Object, name: str, observed: Object | None, reached: bool) -> Object:
    called = name if observed is None else str(observed["metadata"]["name"])
    metadata = {
        **manifest.get("metadata", {}),
        "name": called,
        "annotations": {labels.EXTERNAL_NAME: called},
    }
    # On a cluster that does not answer, the finalizer would hold an object that was never created. An
    # observed object keeps a finalizer of ours; a terminating one has lost it.
    given = reached if observed is None else has_finalizer_of_ours(observed, PROVIDERS_FINALIZER)
    if given:
        metadata["finalizers"] = [PROVIDERS_FINALIZER]
    return {**manifest, "metadata": metadata}
