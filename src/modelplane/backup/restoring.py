"""Restoring: write the objects of a backup to a control plane that has none.

Nothing that exists is changed: an object that differs, or that the backup does not have, is a refusal. An
object that is there already, as after an interrupted restore, is completed. Each object gets its status and
its field managers after it is created, so that the controllers find it as they left it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from modelplane.api.listing import listing
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.backup import planning
from modelplane.backup.archive import Damaged, Reader, Reference
from modelplane.backup.contents import (
    CONFIG_MAP,
    MANAGER,
    SECRET,
    Content,
    list_contents,
    list_installed,
    list_secret_kinds,
)
from modelplane.backup.fleet_hold import Hold
from modelplane.backup.objects import (
    Entry,
    Identity,
    build_entry,
    build_former_uids,
    build_manifest,
    is_restored,
    list_managers,
    list_owners,
)
from modelplane.backup.planning import Plan
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.readiness import is_true
from modelplane.controllers.children.ownership import contains
from modelplane.install.manifests import build_definitions
from modelplane.install.waiting import Deadline, Report
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import build_key
from modelplane.kube.resources import NAMESPACES, Object, Resource
from modelplane.user_error import UserError

_AT_A_TIME = 16
_PROGRESS = 500
_YOUNGER_S = 1.1
"""The age of an object has the precision of a second."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    plan: Plan
    missing: tuple[str, ...] = ()
    """Secrets, ConfigMaps and ModelKeys of the fleet that are not there."""
    differing: tuple[str, ...] = ()
    """Secrets and ConfigMaps that were there with another content, and were kept."""

    @property
    def leaving(self) -> tuple[str, ...]:
        """Objects that were being deleted, and are not any more."""
        return tuple(str(entry) for entry in self.plan.entries if entry.is_leaving)


class Restorer:
    """One restore of one file to one control plane."""

    def __init__(
        self,
        client: Client,
        reader: Reader,
        passphrase: bytes | None,
        report: Report,
        deadline: Deadline,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        client.field_manager = MANAGER
        self._client = client
        self._reader = reader
        self._passphrase = passphrase
        self._report = report
        self._deadline = deadline
        self._sleep = sleep
        self._uids: dict[str, str] = {}
        """The new uid of each old one."""
        self._done = 0

    async def restore(self, *, dry_run: bool = False) -> Restored:
        """Restore the file, or with ``dry_run`` report what would be written.

        Raises ``UserError`` and ``Damaged`` mostly before an object is written. After any failure, the
        controllers act again, or the report says that they stand by and how to continue.
        """
        plan = planning.read(self._reader, self._passphrase)
        await list_installed(self._client)
        hold = Hold(self._client, self._reader.digest, sleep=self._sleep)
        async with hold.explain_failure(self._report):
            await hold.check()
            present = await compare(self._client, self._reader, plan)
            if dry_run:
                for entry in plan.entries:
                    self._report(f"{'keep' if entry.identity in present else 'create'} {entry}")
                return Restored(plan, await self._missing(plan, unwritten=True))
            await self._prepare()
            if former := await hold.take():
                self._report(f"Paused the controllers: took the Lease from {former}")
            # Controllers may have written until now.
            await compare(self._client, self._reader, plan)
            hold.must_complete = True
            for group in plan.groups:
                if group.is_younger:
                    await self._sleep(_YOUNGER_S)
                await _together(self._restore_object, group.entries)
            self._report(f"Restored {len(plan.entries):,} objects")
            differing = await self._create_contents(plan)
            await hold.give_back()
        return Restored(plan, await self._missing(plan), differing)

    async def _prepare(self) -> None:
        """Install the kinds if they are not there, and the system's namespace."""
        present = {definition["metadata"]["name"] for definition in await list_installed(self._client)}
        names = {kind.definition for kind in COMPOSED} - present
        lacking = (
            [definition for definition in build_definitions() if definition["metadata"]["name"] in names]
            if names
            else []
        )
        for definition in lacking:
            await self._client.apply(definition)
        await self._deadline.wait_until_nothing(partial(self._unserved, lacking))
        if await self._client.get(NAMESPACES, SYSTEM_NAMESPACE) is None:
            about = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind}
            await self._client.create({**about, "metadata": {"name": SYSTEM_NAMESPACE}})

    async def _unserved(self, kinds: Iterable[Object]) -> str | None:
        names = [kind["metadata"]["name"] for kind in kinds]
        definitions = [await self._client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]
        waiting = [
            name
            for name, definition in zip(names, definitions, strict=True)
            if not is_true(definition or {}, "Established")
        ]
        return f"{listing(waiting)} are not available on the API server yet" if waiting else None

    async def _restore_object(self, entry: Entry) -> None:
        """Create an object with its status and its field managers, or complete it."""
        item = read_item(self._reader, entry)
        try:
            live = await self._create(entry, build_manifest(item, self._uids))
        except errors.Conflict:
            live = await self._adopt_existing(entry, item)
        self._uids[entry.uid] = live["metadata"]["uid"]
        if entry.content.resource != NAMESPACES:
            await self._complete(entry, item, live)
        self._done += 1
        if self._done % _PROGRESS == 0:
            self._report(f"Restored {self._done:,} objects")

    async def _create(self, entry: Entry, body: Object) -> Object:
        """Create an object; ``Conflict`` if there is one of its name."""
        if not entry.content.keeps_bytes:
            return await self._client.create(body)
        if await self._client.get(entry.content.resource, entry.name, entry.namespace or None) is not None:
            raise errors.Conflict(409, "AlreadyExists", f"{entry} exists")
        # The controllers apply it too, and an apply encodes it anew: it is immutable, to the byte.
        return await self._client.apply(body, force=False)

    async def _adopt_existing(self, entry: Entry, item: Object) -> Object:
        live = await self._client.get(entry.content.resource, entry.name, entry.namespace or None)
        if live is None or not is_restored(item, live):
            raise UserError(f"{entry} was changed in the meantime: run the command again")
        annotations = build_former_uids(item)
        if annotations.items() <= (live["metadata"].get("annotations") or {}).items():
            return live
        return await self._patch(entry, {"metadata": {"annotations": annotations}})

    async def _complete(self, entry: Entry, item: Object, live: Object) -> None:
        status = item.get("status")
        if entry.content.has_status and status and not live.get("status"):
            live = await self._patch(entry, {"status": status}, subresource="status")
        managers = list_managers(item, self._uids)
        if managers and any(
            field.get("manager") == MANAGER for field in live["metadata"].get("managedFields", ())
        ):
            # Else fields that the controllers leave out later would stay, as if another had set them.
            await self._patch(entry, {"metadata": {"managedFields": managers}})

    async def _patch(self, entry: Entry, body: Object, *, subresource: str = "") -> Object:
        resource, namespace = entry.content.resource, entry.namespace or None
        return await self._client.patch(resource, entry.name, body, namespace, subresource=subresource)

    async def _create_contents(self, plan: Plan) -> tuple[str, ...]:
        """Create the Secrets and ConfigMaps whose contents the file has; return those that differ there."""
        if (seal := self._reader.seal) is None:
            return ()
        differing = []
        for planned in plan.references:
            reference = self._reader.read_line(planned.place).reference
            if reference is None or not reference.sealed:
                continue
            content = seal.unseal(reference)
            metadata = {
                **content.pop("metadata", {}),
                "name": reference.name,
                "namespace": reference.namespace,
            }
            metadata["ownerReferences"] = list_owners(metadata, self._uids)
            about = {"apiVersion": "v1", "kind": reference.kind, "metadata": metadata}
            try:
                await self._client.create({**about, **content})
            except errors.Conflict:
                live = await self._client.get(_resource(reference.kind), reference.name, reference.namespace)
                if not contains(live, content):
                    differing.append(str(reference))
        return tuple(differing)

    async def _missing(self, plan: Plan, *, unwritten: bool = False) -> tuple[str, ...]:
        """Return the references that are not there; with ``unwritten``, without those that it would write."""
        written = unwritten and self._reader.seal is not None
        needed = [planned.reference for planned in plan.references if not (written and planned.has_content)]
        items = [
            await self._client.get(_resource(reference.kind), reference.name, reference.namespace)
            for reference in needed
        ]
        return tuple(str(reference) for reference, item in zip(needed, items, strict=True) if item is None)


def _resource(kind: str) -> Resource:
    return {SECRET: resources.SECRETS, CONFIG_MAP: resources.CONFIG_MAPS, **list_secret_kinds()}[kind]


async def _together(do: Callable[[Entry], Awaitable[None]], entries: Iterable[Entry]) -> None:
    """Do something with each entry, several at a time; raise the first failure once nothing is under way."""
    waiting = iter(entries)

    async def work(entries: Iterator[Entry]) -> None:
        for entry in entries:
            await do(entry)

    for result in await asyncio.gather(*(work(waiting) for _ in range(_AT_A_TIME)), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


async def compare(client: Client, reader: Reader, plan: Plan) -> frozenset[Identity]:
    """Return which objects of a backup are there already. Raises ``UserError`` if it must not be restored."""
    entries = {planned.identity: planned for planned in plan.entries}
    named = {reference.reference for reference in plan.references}
    present: set[Identity] = set()
    others: list[str] = []
    differing: list[str] = []
    for content in list_contents():
        async for live in _live(client, content):
            resource, key = content.resource, build_key(live)
            entry = entries.get((resource.api_version, resource.kind, key.namespace, key.name))
            if entry is None:
                of_file = Reference(kind=resource.kind, namespace=key.namespace, name=key.name) in named
                if resource != NAMESPACES and not of_file:
                    others.append(f'{resource.kind} "{key}"')
            elif is_restored(read_item(reader, entry), live):
                present.add(entry.identity)
            else:
                differing.append(str(entry))
    if differing:
        raise UserError(
            f"objects on the control plane differ from the backup: {listing(differing)}. Nothing was "
            "changed: restore to an empty control plane"
        )
    if others:
        raise UserError(
            f"the control plane contains objects that are not in the backup: {listing(others)}. Nothing "
            "was changed: restore to an empty control plane"
        )
    contents = {
        planned.content
        for planned in plan.entries
        if planned.content.optional and planned.identity not in present
    }
    lacking = [content.resource for content in contents if not await client.is_served(content.resource)]
    if lacking:
        kinds = listing(f"{resource.kind} of {resource.group}" for resource in lacking)
        raise UserError(f"{kinds} are not available on the API server: install the cloud providers first")
    return frozenset(present)


async def _live(client: Client, content: Content) -> AsyncIterator[Object]:
    """Yield the objects of a kind that are there; none if the API server does not have the kind."""
    try:
        async for page in client.list_pages(
            content.resource, content.namespace or None, labels=content.selector
        ):
            for item in page.items:
                yield item
    except errors.NotFound:
        if await client.is_served(content.resource):
            raise


def read_item(reader: Reader, entry: Entry) -> Object:
    """Return the object of an entry. Raises ``Damaged`` if it is another one by now."""
    item = reader.read_object(entry.place)
    if item is None or build_entry(item, entry.place) != entry:
        raise Damaged("the file was changed while it was being read")
    return item
