"""Kubernetes' garbage collector: what has lost its owners goes after them."""

from collections.abc import Iterable, Iterator

from support.crossplane.api import FOREGROUND, ApiError, ApiServer, Change, Event
from support.crossplane.objects import Key, Object, is_deleted, key_of
from support.crossplane.simulation import DONE, Result


class GarbageCollector:
    """Deletes the dependents of what is gone, and before it what is deleted in the foreground."""

    first_delay = 0.005
    longest_delay = 1000.0
    workers = 1

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._dependents: dict[str, set[Key]] = {}

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return what may have to go."""
        item = event.new.object
        for owner in item["metadata"].get("ownerReferences", ()):
            self._dependents.setdefault(owner["uid"], set()).add(event.key)
        if event.change is Change.DELETED:
            yield from sorted(self._dependents.pop(item["metadata"]["uid"], ()))
            yield from (key_of(owner) for owner in self._foreground_owners(item))
        elif event.change is Change.ADDED or FOREGROUND in item["metadata"].get("finalizers", ()):
            yield event.key

    def reconcile(self, key: Key) -> Result:
        """Delete an object whose owners are all gone; let go one whose dependents are."""
        item = self._api.get(key)
        if item is None:
            return DONE
        try:
            return self._reconcile(key, item)
        except ApiError as error:
            return Result(again=error.reason != "NotFound")

    def _reconcile(self, key: Key, item: Object) -> Result:
        metadata = item["metadata"]
        if FOREGROUND in metadata.get("finalizers", ()):
            blocking = list(self._blocking(metadata["uid"]))
            refused = 0
            for dependent in blocking:
                if not is_deleted(dependent):
                    try:
                        self._api.delete(key_of(dependent), "Foreground")
                    except ApiError:
                        refused += 1  # each dependent is an item of its own, and holds no other up
            if not blocking:
                metadata["finalizers"].remove(FOREGROUND)
                self._api.update(item, "garbage-collector")
            return Result(again=bool(refused))
        owners = metadata.get("ownerReferences", ())
        staying = [owner for owner in owners if self._api.has(owner["uid"])]
        if owners and not staying and not is_deleted(item):
            self._api.delete(key, uid=metadata["uid"])
        elif len(staying) < len(owners):
            metadata["ownerReferences"] = staying
            self._api.update(item, "garbage-collector")
        return DONE

    def _blocking(self, uid: str) -> Iterator[Object]:
        for dependent in sorted(self._dependents.get(uid, ())):
            item = self._api.get(dependent)
            owners = item["metadata"].get("ownerReferences", ()) if item else ()
            if item and any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners):
                yield item

    def _foreground_owners(self, item: Object) -> Iterator[Object]:
        uids = {owner["uid"] for owner in item["metadata"].get("ownerReferences", ())}
        for each in self._api.all() if uids else ():
            if each["metadata"]["uid"] in uids and FOREGROUND in each["metadata"].get("finalizers", ()):
                yield each
