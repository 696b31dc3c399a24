"""What the API server made of what was applied.

A server may store another spelling of a value (the quantity ``0.5`` as
``500m``), and admission may change one. Compared with the manifest, such an
object differs for ever, and would be applied at every look. So the server's
spelling is remembered, and it is that from which the object must not stray.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.controllers import ownership
from modelplane.kube.resources import Object


class Settled:
    """The server's spelling of manifests that it did not store as they were, by the object's uid."""

    def __init__(self) -> None:
        self._spellings: dict[str, Object] = {}

    def remember(self, manifest: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        """Take in what applying a manifest was answered with."""
        uid = written["metadata"]["uid"]
        if ownership.is_current(manifest, written):
            self._spellings.pop(uid, None)
        else:
            self._spellings[uid] = _spelling(manifest, written)

    def forget(self, item: Mapping[str, Any]) -> None:
        """Drop what is known of an object that is to go."""
        self._spellings.pop(item["metadata"]["uid"], None)

    def is_current(self, manifest: Mapping[str, Any], observed: Mapping[str, Any]) -> bool:
        """Whether applying the manifest would leave the object as it is."""
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
