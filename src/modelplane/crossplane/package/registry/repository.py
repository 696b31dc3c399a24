"""A repository of a registry: blobs and manifests, as the OCI distribution specification 1.1 has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx2

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.oci import Descriptor, MediaType
from modelplane.crossplane.package.package_addresses import Target
from modelplane.crossplane.package.registry.accounts import Account
from modelplane.crossplane.package.registry.registry_connection import Answer, Connection, Content

_MANIFESTS: Final = ", ".join((MediaType.MANIFEST, MediaType.INDEX))
_FOUND: Final = frozenset({200, 302, 303, 307, 308})
"""Answers about a blob that is there; a registry may refer to another server for its content."""


class Repository:
    """A repository to push to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def manifest(self, reference: str) -> bytes | None:
        """Return the manifest of a tag or digest; None if there is none."""
        url = self._connection.url(f"manifests/{reference}")
        answer = self._ask("GET", url, {"Accept": _MANIFESTS})
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise PackageError(self._connection.refusal(answer))
        return answer.body

    def has(self, digest: str) -> bool:
        """Return True if a blob is there."""
        answer = self._ask("HEAD", self._connection.url(f"blobs/{digest}"))
        if answer.status != 404 and answer.status not in _FOUND:
            raise PackageError(self._connection.refusal(answer))
        return answer.status in _FOUND

    def upload(self, blob: Descriptor, content: Content) -> None:
        """Upload a blob. An upload that is interrupted starts anew."""
        self._connection.patiently(lambda: self._upload(blob, content))

    def _upload(self, blob: Descriptor, content: Content) -> None:
        connection = self._connection
        begun = connection.ask("POST", connection.url("blobs/uploads/"), {"Content-Length": "0"})
        if begun.status == 404:
            raise PackageError(
                f"{connection.refusal(begun)}: there is no repository {connection.target.path}: create it"
            )
        if begun.status != 202:
            raise PackageError(connection.refusal(begun))
        url = connection.followed(begun).copy_merge_params({"digest": blob.digest})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
        done = connection.ask("PUT", url, headers, content)
        if done.status != 201:
            raise PackageError(f"{connection.refusal(done)} to the upload of {blob.digest}")

    def put(self, reference: str, media_type: str, content: bytes) -> None:
        """Store a manifest under a tag or its digest, and compare what is there then."""
        url = self._connection.url(f"manifests/{reference}")
        headers = {"Content-Type": media_type, "Content-Length": str(len(content))}
        answer = self._ask("PUT", url, headers, lambda: (content,))
        if answer.status != 201:
            raise PackageError(f"{self._connection.refusal(answer)} to the manifest {reference}")
        if self.manifest(reference) != content:
            raise PackageError(
                f"{self._connection.target.host} has another manifest for {reference} than the one that it "
                "accepted: push again, and look for another client that pushes this tag"
            )

    def _ask(
        self,
        method: str,
        url: httpx2.URL,
        headers: dict[str, str] | None = None,
        content: Content | None = None,
    ) -> Answer:
        return self._connection.patiently(lambda: self._connection.ask(method, url, headers, content))


@contextmanager
def opened(target: Target, account: Account | None) -> Iterator[Repository]:
    """Open a repository: by HTTPS, or by HTTP and without a proxy on this machine."""
    with httpx2.Client(trust_env=not target.is_loopback) as client:
        yield Repository(Connection(client, target, account))
