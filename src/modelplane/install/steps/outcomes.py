"""Application of one object, with its outcome: created, changed or unchanged."""

from modelplane.controllers.fleet_resources import resource_of
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

OUTCOMES = ("created", "changed", "unchanged")
_BOOKKEEPING = frozenset({"generation", "managedFields", "resourceVersion"})


async def apply(client: Client, manifest: Object, *, force: bool = True, dry_run: bool = False) -> str:
    """Apply an object and return the outcome."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace")
    before = await client.get(resource_of(manifest), name, namespace)
    try:
        after = await client.apply(manifest, force=force, dry_run=dry_run)
    except errors.NotInstalled:
        raise
    except errors.NotFound:
        if dry_run and before is None:
            return "created"  # by then its namespace is there
        raise
    if before is None:
        return "created"
    return "unchanged" if _content(before) == _content(after) else "changed"


def _content(item: Object) -> Object:
    """Return an object as it can be applied: without server-side metadata and status."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _BOOKKEEPING}
    return {**item, "metadata": metadata, "status": None}
