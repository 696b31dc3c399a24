"""Informer: an up-to-date copy of the objects of one kind.

An informer lists once, then watches. When a watch ends, it opens the next one at the last version. It lists
again when the server says that this version is gone, and after every outage, because another server may
answer then. The copy is level-based: a handler gets the object that changed, not the change, and reads the
copy.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.http_messages import ObjectList
from modelplane.kube.resources import Object, Resource

_log = logging.getLogger(__name__)

_FIRST_RETRY_S = 0.2
_LAST_RETRY_S = 10.0
_SHORT_S = 1.0
"""A watch that ends sooner counts as a failure: the next one waits, so that the server is not flooded."""

_TOGETHER_S = 0.25
"""Copies that begin empty open their watches at the multiples of this time, those of one server in one go."""


class Key(NamedTuple):
    """Namespace (empty for a cluster-scoped kind) and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def build_key(manifest: Mapping[str, Any]) -> Key:
    """Return the key of an object or manifest."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def name_object(item: Mapping[str, Any]) -> str:
    """Return an object as messages name it: its kind and key."""
    return f'{item["kind"]} "{build_key(item)}"'


Handler = Callable[[Object], None]
"""Called, on the event loop, with the new state of a changed object or the last state of a deleted one."""


class Informer:
    """A local copy of one kind, as far as the selectors reach."""

    def __init__(  # noqa: PLR0913  one for each part of a list and a watch
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        project: Callable[[Object], Object] | None = None,
        holds: bool = True,
        on_change: Handler | None = None,
        on_answer: Callable[["Informer"], None] = lambda _informer: None,
    ) -> None:
        """``on_answer`` is called whenever the server has listed, and when it begins not to answer.

        ``project`` returns the part of an object to keep; a change of nothing else is told to no handler.
        With ``holds``, handlers are also told of a change that adds a finalizer and nothing else.
        """
        self.resource = resource
        self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._metadata_only = metadata_only
        self._project = project
        self._holds = holds
        self._handlers: list[Handler] = [on_change] if on_change else []
        self._on_answer = on_answer
        self._objects: dict[Key, Object] = {}
        self._by_namespace: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        self._synced = asyncio.Event()
        self._seen = 0  # every change up to this version is in the copy
        self._listed = False  # True if a watch may continue from there
        self.problem = ""
        """The cause if the copy may be stale, in the server's words; empty while a watch is open."""
        self.problem_since = 0.0
        """When the present problem began, on the event loop's clock."""

    def __iter__(self) -> Iterator[Object]:
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return one object of the copy."""
        return self._objects.get(Key(namespace, name))

    def in_namespace(self, namespace: str) -> tuple[Object, ...]:
        """Return the objects of one namespace of the copy."""
        return tuple(self._by_namespace.get(namespace, {}).values())

    def add_handler(self, handler: Handler) -> None:
        """Call a handler for every later change, and now for what is already here."""
        self._handlers.append(handler)
        for item in self:
            handler(item)

    def begin_empty(self, version: int) -> None:
        """Assume, before ``run``, that there is no such object up to a version of the server.

        So the copy is good from the start, and is watched from there.
        """
        self._seen, self._listed = version, True
        self._synced.set()

    @property
    def synced(self) -> bool:
        """Return True if the first list has arrived."""
        return self._synced.is_set()

    async def wait_until_synced(self) -> None:
        """Return once the first list has arrived."""
        await self._synced.wait()

    def remember(self, item: Object) -> None:
        """Put a written object into the copy, so that the writer reads its own writes.

        The watch delivers it too; the newer one stays. An object that the watch has passed and that is not
        in the copy has been deleted since.
        """
        stored = self._objects.get(build_key(item))
        if _version(item) > (self._seen if stored is None else _version(stored)):
            self._put(item)

    async def run(self, before_list: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Keep the copy up to date until cancelled; a server that is away is waited for.

        ``before_list`` returns False if there is nothing left to copy: then this ends, with an empty copy.
        """
        loop = asyncio.get_running_loop()
        retry_s = _FIRST_RETRY_S
        if self._listed:
            # The copy began empty and is good for the moment; whoever writes its objects writes others, too.
            await asyncio.sleep(_TOGETHER_S - loop.time() % _TOGETHER_S)
        while True:
            began = loop.time()
            try:
                if not self._listed:
                    if before_list is not None and not await before_list():
                        self._empty()
                        return
                    await self._list()
                await self._watch()
            except errors.Gone:
                self._listed = False
            except errors.KubernetesError as error:
                self._suffer(str(error))
            except Exception as error:  # noqa: BLE001 - a copy that stops unseen would be believed for ever
                self._suffer(f"a bug: {error!r}")
                _log.exception("cannot watch %s", self.resource.plural)
            lasted_s = loop.time() - began
            if lasted_s > _LAST_RETRY_S:
                retry_s = _FIRST_RETRY_S
            if self._listed and lasted_s > _SHORT_S:
                continue
            await asyncio.sleep(retry_s * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    def _suffer(self, problem: str) -> None:
        self._listed = False
        began = not self.problem
        if began:
            self.problem_since = asyncio.get_running_loop().time()
        self.problem = problem
        _log.debug("cannot watch %s: %s", self.resource.plural, problem)
        if began:
            self._on_answer(self)

    async def _list(self) -> None:
        try:
            answer = await self._client.list(
                self.resource,
                self._namespace,
                labels=self._labels,
                fields=self._fields,
                metadata_only=self._metadata_only,
            )
        except errors.NotFound:
            if await self._client.is_served(self.resource):
                raise
            # A server that does not know the kind has none of it; the kind may be installed later.
            self._empty()
            return
        self._replace(answer)
        self._listed = True
        self._answered()

    def _empty(self) -> None:
        for gone in self:
            self._drop(gone)
        self._answered()

    def _answered(self) -> None:
        self.problem = ""
        self._synced.set()
        self._on_answer(self)

    def _replace(self, answer: ObjectList) -> None:
        version = int(answer.resource_version)
        # A server that is behind what it once said is another one, or was restored: only its list counts.
        restored = version < self._seen
        listed = {build_key(item) for item in answer.items}
        for former in self:
            if build_key(former) not in listed and (restored or _version(former) <= version):
                self._drop(former)
        self._seen = version
        for item in answer.items:
            before = self._objects.get(build_key(item))
            if restored or before is None or _version(before) < _version(item):
                self._put(item)

    async def _watch(self) -> None:
        if not self._listed:
            return
        watch = self._client.watch(
            self.resource,
            str(self._seen),
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            metadata_only=self._metadata_only,
        )
        async with aclosing(watch) as events:
            async for event in events:
                if event.type == "DELETED":
                    self._drop(event.object)
                elif event.type != "BOOKMARK":
                    self.remember(event.object)
                self._seen = max(self._seen, _version(event.object))

    def _put(self, item: Object) -> None:
        # Managed fields are half of an object, and only the server needs them.
        item["metadata"].pop("managedFields", None)
        if self._project is not None:
            item = self._project(item)
        stored = self._objects.get(build_key(item))
        if stored is not None and stored["metadata"]["uid"] != item["metadata"]["uid"]:
            self._drop(stored)  # handlers must learn that the old object of that name is gone
        key = build_key(item)
        self._objects[key] = self._by_namespace[key.namespace][key] = item
        if stored is None or not self._is_quiet(stored, item):
            self._tell(item)

    def _is_quiet(self, known: Object, item: Object) -> bool:
        """Return True if a change concerns nobody."""
        if self._project is not None:
            return _content(known) == _content(item)
        before, now = (version["metadata"].get("finalizers", []) for version in (known, item))
        if self._holds or not set(before) < set(now):
            return False
        return _content(known, finalizers=()) == _content(item, finalizers=())

    def _drop(self, item: Object) -> None:
        key = build_key(item)
        stored = self._objects.get(key)
        # A name may have been taken again by a newer object that a write answered.
        if stored is not None and stored["metadata"]["uid"] == item["metadata"]["uid"]:
            del self._objects[key]
            del self._by_namespace[key.namespace][key]
            if not self._by_namespace[key.namespace]:
                del self._by_namespace[key.namespace]
            self._tell(item)

    def _tell(self, item: Object) -> None:
        for handler in self._handlers:
            try:
                handler(item)
            except Exception:  # noqa: BLE001 - one handler's bug must not keep the change from the others
                _log.exception("cannot handle a change of %s %s", self.resource.kind, build_key(item))


def _content(item: Object, **instead: object) -> Object:
    return item | {"metadata": {**item["metadata"], "resourceVersion": "", **instead}}


def _version(item: Object) -> int:
    # Resource versions may be compared as numbers since Kubernetes 1.35 (KEP-5504).
    return int(item["metadata"]["resourceVersion"])
