"""Comparison of a control plane with a backup, before anything is written to it."""

from collections.abc import AsyncIterator

from modelplane.api.listing import listing
from modelplane.backup.archive import Damaged, Reader, Reference
from modelplane.backup.contents import Content, list_contents
from modelplane.backup.objects import Entry, Identity, build_entry, is_restored
from modelplane.backup.planning import Plan
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import build_key
from modelplane.kube.resources import NAMESPACES, Object
from modelplane.user_error import UserError


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
                is_other = resource != NAMESPACES and not of_file
                others += [f'{resource.kind} "{key}"'] if is_other else []
            elif is_restored(read_item(reader, entry), live):
                present.add(entry.identity)
            else:
                differing.append(str(entry))
    if differing:
        raise UserError(
            f"objects exist there and differ from the backup: {listing(differing)}. Nothing was changed: "
            "restore to an empty control plane"
        )
    if others:
        raise UserError(
            f"objects exist there that the backup does not have: {listing(others)}. Nothing was changed: "
            "restore to an empty control plane"
        )
    await _check_kinds(client, plan, present)
    return frozenset(present)


async def _check_kinds(client: Client, plan: Plan, present: set[Identity]) -> None:
    """Refuse a backup with objects of third-party kinds that are not installed."""
    contents = {
        entry.content for entry in plan.entries if entry.content.optional and entry.identity not in present
    }
    lacking = [content.resource for content in contents if not await client.is_served(content.resource)]
    if lacking:
        kinds = listing(f"{resource.kind} of {resource.group}" for resource in lacking)
        raise UserError(f"the API server does not serve {kinds}: install the providers of the clouds first")


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
        raise Damaged("it was changed while it was read")
    return item
