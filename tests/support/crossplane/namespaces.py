"""Kubernetes' namespace controller: what a deleted namespace holds goes, all of a kind at once."""

from collections.abc import Iterable, Iterator

from support.crossplane.api import CONTENT, ApiError, ApiServer, Change, Event
from support.crossplane.objects import NAMESPACE, Key, Kind, is_deleted, key_of
from support.crossplane.simulation import DONE, Result


class Namespaces:
    """Empties namespaces that are deleted, and lets them go."""

    first_delay = 1.0
    longest_delay = 15.0
    workers = 1

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the namespace that changed, or in which something is gone."""
        if event.key.of == NAMESPACE:
            return [event.key]
        return [Key(*NAMESPACE, "", event.key.namespace)] if event.change is Change.DELETED else []

    def reconcile(self, key: Key) -> Result:
        """Delete what a deleted namespace holds; let it go once it holds nothing."""
        namespace = self._api.get(key)
        if namespace is None or not is_deleted(namespace):
            return DONE
        for kind in self._kinds(key.name):
            try:
                self._api.delete_all(kind, key.name)
            except ApiError:
                continue  # the others all the same
        if list(self._kinds(key.name)):
            return Result(again=True)
        namespace["metadata"]["finalizers"].remove(CONTENT)
        self._api.update(namespace, "namespace-controller")
        return DONE

    def _kinds(self, namespace: str) -> Iterator[Kind]:
        """Yield the kinds of what is there, what an Object is tracked by first, as in discovery."""
        keys = map(key_of, self._api.all())
        found = {key.of for key in keys if key.namespace == namespace}
        yield from sorted(found, key=lambda kind: (kind.name != "ProviderConfigUsage", kind))
