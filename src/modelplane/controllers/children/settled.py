"""Spelling in which the API server stores applied manifests.

A server may normalize a value (the quantity ``0.5`` to ``500m``), and admission may change one. Compared with
its manifest, such an object would differ for ever and be applied in every reconcile. The server's spelling is
therefore remembered, and the object is compared with it.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.controllers.children import ownership
from modelplane.kube.resources import Object


class Settled:
    """The server's spelling of manifests that it stored otherwise, by the object's uid."""

    def __init__(self) -> None:
        self._spellings: dict[str, Object] = {}

    def remember(self, manifest: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        """Record the object with which the server answered an applied manifest."""
        uid = written["metadata"]["uid"]
        if ownership.is_current(manifest, written):
            self._spellings.pop(uid, None)
        else:
            self._spellings[uid] = _spelling(manifest, written)

    def forget(self, item: Mapping[str, Any]) -> None:
        """Forget an object that is being deleted."""
        self._spellings.pop(item["metadata"]["uid"], None)

    def is_current(self, manifest: Mapping[str, Any], observed: Mapping[str, Any]) -> bool:
        """Return True if applying the manifest would not change the object."""
        if ownership.is_current(manifest, observed):
            return True
        spelling = self._spellings.get(observed["metadata"]["uid"])
        return (
            spelling is not None
            and ownership.applied(spelling) == ownership.applied(manifest)
            and ownership.is_current(spelling, observed)
        )


def _spelling(part: Any, whole: Any) -> Any:
    """Return what ``whole`` has in the places of ``part``."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return {key: _spelling(value, whole[key]) for key, value in part.items() if key in whole}
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple) and len(part) == len(whole):
        return [_spelling(p, w) for p, w in zip(part, whole, strict=True)]
    return whole
