"""A kept-up-to-date copy of the objects of one kind.

An informer lists once, then watches; when a watch ends it opens the next one
where the last left off, and lists again only when the server says that version
is gone. Its copy is level-based: a handler is told which object changed, not
how, and reads the copy.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource

_log = logging.getLogger(__name__)

_FIRST_RETRY_S = 0.2
_LAST_RETRY_S = 10.0


class Key(NamedTuple):
    """Where an object is: its namespace (empty for a cluster-scoped kind) and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(manifest: Mapping[str, Any]) -> Key:
    """Return the key of an object or manifest."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


Handler = Callable[[Object], None]
"""Called, on the event loop, with the new state of a changed object or the last state of a deleted one."""


class Informer:
    """A local copy of one kind, as far as the selectors reach."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        on_change: Handler | None = None,
    ) -> None:
        self.resource = resource
        self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._metadata_only = metadata_only
        self._handlers: list[Handler] = [on_change] if on_change else []
        self._objects: dict[Key, Object] = {}
        self._synced = asyncio.Event()
        self._version: str | None = None
        self.problem = ""
        """Why the copy may be stale, in the server's words; empty while a watch is open."""
        self.problem_since = 0.0
        """When the present problem began, on the event loop's clock."""

    def __iter__(self) -> Iterator[Object]:
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return one object of the copy."""
        return self._objects.get(Key(namespace, name))

    def add_handler(self, handler: Handler) -> None:
        """Call a handler for every later change, and now for what is already here."""
        self._handlers.append(handler)
        for item in self:
            handler(item)

    @property
    def synced(self) -> bool:
        """Whether the first list has arrived."""
        return self._synced.is_set()

    async def wait_until_synced(self) -> None:
        """Return once the first list has arrived."""
        await self._synced.wait()

    def remember(self, item: Object) -> None:
        """Take in what a write answered, so that the writer reads its own writes.

        The watch will bring it too; whichever is newer stays.
        """
        known = self._objects.get(key_of(item))
        if known is None or _version(known) < _version(item):
            self._put(item)

    async def run(self) -> None:
        """Keep the copy up to date until cancelled; a server that is away is waited for."""
        retry_s = _FIRST_RETRY_S
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
                retry_s = _FIRST_RETRY_S
                continue
            except errors.Unreachable as error:
                self._suffer(str(error))
            except errors.NotFound:
                # The server does not know this kind, so it has none; the kind may be installed later.
                self._version = None
                self._replace(())
            except errors.ApiError as error:
                self._version = None
                if not isinstance(error, errors.Gone):
                    self._suffer(str(error))
            except Exception as error:  # noqa: BLE001 - a copy that stops unseen would be believed for ever
                self._version = None
                self._suffer(f"a bug: {error!r}")
                _log.exception("cannot watch %s", self.resource.plural)
            await asyncio.sleep(retry_s * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    def _suffer(self, problem: str) -> None:
        if not self.problem:
            self.problem_since = asyncio.get_running_loop().time()
        self.problem = problem
        _log.debug("cannot watch %s: %s", self.resource.plural, problem)

    async def _list(self) -> None:
        answer = await self._client.list(
            self.resource,
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            metadata_only=self._metadata_only,
        )
        self._replace(answer.items)
        self._version = answer.resource_version

    def _replace(self, items: Sequence[Object]) -> None:
        listed = {key_of(item) for item in items}
        for gone in [item for key, item in self._objects.items() if key not in listed]:
            self._drop(gone)
        for item in items:
            known = self._objects.get(key_of(item))
            if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._put(item)
        self.problem = ""
        self._synced.set()

    async def _watch(self) -> None:
        events = self._client.watch(
            self.resource,
            self._version or "",
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            metadata_only=self._metadata_only,
        )
        async for event in events:
            self.problem = ""
            self._version = event.object["metadata"]["resourceVersion"]
            if event.type == "DELETED":
                self._drop(event.object)
            elif event.type != "BOOKMARK":
                self.remember(event.object)

    def _put(self, item: Object) -> None:
        self._objects[key_of(item)] = item
        self._tell(item)

    def _drop(self, item: Object) -> None:
        known = self._objects.get(key_of(item))
        # A name may have been taken again by a newer object that a write answered.
        if known is not None and known["metadata"]["uid"] == item["metadata"]["uid"]:
            del self._objects[key_of(item)]
            self._tell(item)

    def _tell(self, item: Object) -> None:
        for handler in self._handlers:
            handler(item)


def _version(item: Object) -> int:
    # Resource versions may be compared as numbers since Kubernetes 1.35 (KEP-5504).
    return int(item["metadata"]["resourceVersion"])
