"""Saving: read a fleet from its control plane, and write it to a file.

All objects are read as of one version of the control plane, page by page: what changes meanwhile is not in
the file, and the file is consistent.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from modelplane import __version__
from modelplane.api.listing import count_noun
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.backup.archive import FORMAT, NAME, Header, Reference, Seal, Writer, make_salt, write_file
from modelplane.backup.contents import SECRET, Content, Named, find_named, list_contents, list_installed
from modelplane.compose.cluster.cluster_namespace import is_ours
from modelplane.install.waiting import Report
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import build_key
from modelplane.kube.resources import NAMESPACES, Object
from modelplane.user_error import UserError

_NOT_RESTORED = ("helm.sh/release.v1", "kubernetes.io/service-account-token")
"""Types of Secrets that belong to a cluster and not to a fleet."""

_PARTS = ("type", "data", "binaryData", "immutable")
_METADATA = ("labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Saved:
    """A backup that was written."""

    objects: int
    references: int
    has_contents: bool
    digest: str


class Saver:
    """One backup of one control plane."""

    def __init__(
        self,
        client: Client,
        report: Report,
        *,
        now: Callable[[], str] = timestamps.format_now,
        page: int = 200,
    ) -> None:
        self._client = client
        self._report = report
        self._now = now
        self._page = page
        self._used: set[str] = {SYSTEM_NAMESPACE}
        self._named: set[Named] = set()
        self._saved = 0

    async def save(self, path: Path, passphrase: bytes | None) -> Saved:
        """Write a backup; with a passphrase, with the contents of the Secrets and ConfigMaps that it names.

        Raises ``UserError`` for a fleet that cannot be saved, and ``FileExistsError``.
        """
        if not await list_installed(self._client):
            raise UserError(
                "Modelplane is not installed there: select another control plane with --kubeconfig"
            )
        salt = make_salt() if passphrase is not None else ""
        seal = Seal(passphrase, salt) if passphrase is not None else None
        with write_file(path) as file:
            version = (await self._client.list(NAMESPACES)).resource_version
            file.begin(
                Header(
                    name=NAME,
                    format=FORMAT,
                    modelplane=__version__,
                    time=self._now(),
                    resource_version=version,
                    salt=salt,
                )
            )
            # Last the namespaces: only those of the others are saved.
            for content in sorted(list_contents(), key=lambda row: row.resource == NAMESPACES):
                await self._save(content, version, file, seal)
            await self._refer(seal, file)
            digest = file.finish()
        return Saved(self._saved, file.references, seal is not None, digest)

    async def _save(self, content: Content, version: str, file: Writer, seal: Seal | None) -> None:
        count = 0
        async for item in self._objects(content, version):
            if content.resource != NAMESPACES:
                self._used.add(build_key(item).namespace)
            elif not (build_key(item).name in self._used or is_ours(item)):
                continue
            self._named |= find_named(item)
            count += 1
            if content.is_secret:
                file.refer(_reference(Named(content.resource.kind, *build_key(item)), seal, item))
            else:
                file.add(item)
        if count:
            how = "" if not content.is_secret else ", encrypted" if seal is not None else ", the names only"
            self._report(f"{count_noun(count, content.resource.kind)}{how}")
        if not content.is_secret or seal is not None:
            self._saved += count

    async def _objects(self, content: Content, version: str) -> AsyncIterator[Object]:
        try:
            pages = self._client.list_pages(
                content.resource,
                content.namespace or None,
                labels=content.selector,
                resource_version=version,
                limit=self._page,
            )
            async for page in pages:
                for item in page.items:
                    yield item
        except errors.NotFound:
            if await self._client.is_served(content.resource):
                raise
            if not content.optional:
                raise errors.NotInstalled(content.resource.kind, content.resource.api_version) from None
        except errors.Gone:
            message = (
                "the API server no longer stores the version at which the backup started: run the "
                "command again"
            )
            raise UserError(message) from None

    async def _refer(self, seal: Seal | None, file: Writer) -> None:
        """Write what the objects name, and the Secrets of the system's namespace."""
        others = ",".join(f"type!={kind}" for kind in _NOT_RESTORED)
        secrets = await self._client.list(
            resources.SECRETS, SYSTEM_NAMESPACE, fields=others, metadata_only=True
        )
        named = self._named | {Named(SECRET, *build_key(item)) for item in secrets.items}
        for reference in sorted(named):
            file.refer(
                _reference(reference, seal, await self._content(reference) if seal is not None else None)
            )
        if named:
            how = ", with the encrypted contents" if seal is not None else ""
            self._report(f"{count_noun(len(named), 'name')} of Secrets and ConfigMaps{how}")

    async def _content(self, named: Named) -> Object | None:
        resource = resources.SECRETS if named.kind == SECRET else resources.CONFIG_MAPS
        item = await self._client.get(resource, named.name, named.namespace)
        if item is None or item.get("type") in _NOT_RESTORED:
            return None
        content = {key: item[key] for key in _PARTS if key in item}
        metadata = {key: item["metadata"][key] for key in _METADATA if key in item["metadata"]}
        return {**content, "metadata": metadata}


def _reference(named: Named, seal: Seal | None, content: Object | None) -> Reference:
    plain = Reference(kind=named.kind, namespace=named.namespace, name=named.name)
    return msgspec.structs.replace(plain, sealed=seal.seal(plain, content)) if seal and content else plain
