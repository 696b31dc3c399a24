"""Client of one API server, for plain objects.

Requests and responses are raw JSON: a kind needs no model, and no field that the server sent is lost.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import httpx2
import msgspec
from lightkube.config.client_adapter import BearerAuth
from lightkube.config.kubeconfig import SERVICE_ACCOUNT

from modelplane.kube import connection, errors, http_messages, resources
from modelplane.kube.fence import Fence, build_trace
from modelplane.kube.http_messages import ObjectList, Requests, WatchEvent
from modelplane.kube.resources import Discovery, Known, Object, Resource

_CONTENT_TYPES = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

_DEADLINE = 3
"""Longest duration of a whole request, in time-outs."""

_AT_A_TIME = 32
"""Requests in flight, apart from watches; others wait for their turn without a time-out."""

_encode = msgspec.json.Encoder().encode


class Client:
    """A connection pool to one API server under one identity."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        field_manager: str,
        timeout_s: float = 10.0,
        fence: Fence | None = None,
        known: Known = resources.find_known,
    ) -> None:
        """``known`` tells the kinds that need not be discovered."""
        self._http = http
        self._requests = Requests(http)
        self._timeout_s = timeout_s
        self._turn = asyncio.Semaphore(_AT_A_TIME)
        self._extensions = {} if fence is None else {"trace": build_trace(fence)}
        self._discovery = Discovery(partial(self._request, "GET"), known)
        self.field_manager = field_manager

    @classmethod
    def from_kubeconfig(
        cls,
        kubeconfig: str | Mapping[str, Any],
        *,
        field_manager: str = "modelplane",
        timeout_s: float = 10.0,
        fence: Fence | None = None,
        context: str = "",
        known: Known = resources.find_known,
    ) -> Self:
        """Connect as the current context of a kubeconfig, or a named one, given as a path or as its content.

        Nothing is sent yet. Raises ``ValueError`` for a kubeconfig that cannot be used. ``fence`` is asked
        before each write, at the last moment.
        """
        http = connection.connect_by_kubeconfig(kubeconfig, timeout_s, context)
        return cls(http, field_manager, timeout_s, fence, known)

    @classmethod
    def connect_in_cluster(
        cls,
        *,
        account: Path = Path(SERVICE_ACCOUNT),
        field_manager: str = "modelplane",
        timeout_s: float = 10.0,
        fence: Fence | None = None,
        known: Known = resources.find_known,
    ) -> Self:
        """Connect as the service account of the pod that this runs in.

        Its token is read again whenever the server no longer takes the one before. Raises ``ValueError``
        outside a pod with a service account.
        """
        http = connection.connect_as_service_account(account, timeout_s)
        return cls(http, field_manager, timeout_s, fence, known)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, watches included."""
        await self._http.aclose()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """Return one object; None if there is none."""
        try:
            return await self._request("GET", resource.build_path(namespace, name))
        except errors.NotFound:
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        """Return every object of a kind, in one namespace or in all, that the selectors match."""
        response = await self._send(
            "GET",
            resource.build_path(namespace),
            http_messages.build_selectors(labels, fields),
            accept=http_messages.choose_media_type(metadata_only, "List"),
        )
        return http_messages.decode_list(http_messages.decode_object(*response), resource)

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        resource_version: str = "",
        limit: int = 200,
    ) -> AsyncGenerator[ObjectList, None]:
        """Yield every object of a kind in pages, all as of one version: the given one, else the newest.

        Raises ``Gone`` when the server no longer keeps that version.
        """
        rest = ""
        while True:
            params = http_messages.build_selectors(labels, "") | http_messages.build_page_parameters(
                limit, resource_version, rest
            )
            response = await self._send("GET", resource.build_path(namespace), params)
            page = http_messages.decode_list(http_messages.decode_object(*response), resource)
            yield page
            rest = page.rest
            if not rest:
                return

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes after a resource version until the server ends the watch.

        Raises ``Gone`` when the version is too old to continue from.
        """
        params = http_messages.build_selectors(labels, fields) | http_messages.build_watch_parameters(
            resource_version
        )
        request = self._requests.build(
            "GET",
            resource.build_path(namespace),
            params,
            httpx2.Timeout(self._timeout_s, read=http_messages.SILENCE_S),
            accept=http_messages.choose_media_type(metadata_only, ""),
        )
        async with http_messages.raise_unreachable():
            async with asyncio.timeout(self._timeout_s * _DEADLINE):
                response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    http_messages.raise_for_status(response)
                async for line in http_messages.read_lines(response):
                    yield http_messages.decode_event(line, resource)
            except httpx2.ReadTimeout:
                return
            finally:
                await response.aclose()

    async def apply(
        self, manifest: Mapping[str, Any], *, subresource: str = "", force: bool = True, dry_run: bool = False
    ) -> Object:
        """Make the object have these fields, by server-side apply (KEP-555).

        Fields of the manifest become owned by this client's field manager, and those it applied
        before but leaves out now are removed. ``force`` takes fields from other managers.
        """
        resource = await self.find_resource(manifest)
        metadata = manifest["metadata"]
        params = {
            "fieldManager": self.field_manager,
            "fieldValidation": "Strict",
            "force": "true" if force else "false",
        }
        if dry_run:
            params["dryRun"] = "All"
        path = resource.build_path(metadata.get("namespace"), metadata["name"], subresource)
        try:
            return await self._request("PATCH", path, params, manifest, _CONTENT_TYPES["apply"])
        except errors.NotFound as error:
            # Of a missing namespace the server says so itself.
            if '" not found' not in error.message and not await self.is_served(resource):
                raise errors.NotInstalled(resource.kind, resource.api_version) from error
            raise

    async def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create an object; ``Conflict`` when its name is taken."""
        path = (await self.find_resource(manifest)).build_path(manifest["metadata"].get("namespace"))
        params = {"fieldManager": self.field_manager, "fieldValidation": "Strict"}
        return await self._request("POST", path, params, manifest)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        kind: Literal["merge", "strategic"] = "merge",
        subresource: str = "",
    ) -> Object:
        """Change the fields of a patch; put ``metadata.resourceVersion`` in it to guard against races."""
        params = {"fieldManager": self.field_manager}
        path = resource.build_path(namespace, name, subresource)
        return await self._request("PATCH", path, params, body, _CONTENT_TYPES[kind])

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_period_s: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """Ask for an object's deletion; one that is already gone is a success.

        With ``uid``, ``Conflict`` is raised when the name now belongs to another object.
        """
        options: Object = {"propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        try:
            await self._request("DELETE", resource.build_path(namespace, name), None, options)
        except errors.NotFound:
            return

    async def create_token(
        self, account: str, namespace: str, lifetime_s: int, bound_to: Mapping[str, str] | None = None
    ) -> str:
        """Return a new token of a service account; the server may grant another lifetime (TokenRequest).

        ``bound_to`` refers to a pod with whose deletion the token ends.
        """
        bound = {"boundObjectRef": bound_to} if bound_to else {}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": lifetime_s, **bound},
        }
        path = resources.SERVICE_ACCOUNTS.build_path(namespace, account, "token")
        status = (await self._request("POST", path, None, body)).get("status")
        return str(status.get("token", "")) if isinstance(status, dict) else ""

    def use_token(self, token: str) -> None:
        """Send every later request with another bearer token; open watches continue."""
        self._http.auth = BearerAuth(token)

    async def find_resource(self, manifest: Mapping[str, Any]) -> Resource:
        """Return the resource that serves a manifest; ``NotInstalled`` if the server has no such kind."""
        return await self._discovery.find_resource(manifest)

    async def is_served(self, resource: Resource) -> bool:
        """Return True if the server has a kind, by its own word (the discovery API).

        A 404 alone is not that: a proxy or a load balancer in front of a server says it too. Raises
        ``KubernetesError`` where the server gives no clear answer.
        """
        served = await self._discovery.list_served(resource.api_version)
        return any(listed.plural == resource.plural for listed in served)

    async def read_lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of any path that may go on for ever, such as a log that is followed.

        A server may say nothing at all, not even that it has begun to answer, until there is a line.
        """
        request = self._requests.build("GET", path, params, httpx2.Timeout(self._timeout_s, read=None))
        async with http_messages.raise_unreachable():
            response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    http_messages.raise_for_status(response)
                async for line in http_messages.read_lines(response, unfinished=True):
                    yield line
            finally:
                await response.aclose()

    async def get_raw(self, path: str) -> bytes:
        """Return the body of any path, such as ``/readyz``."""
        return (await self._send("GET", path))[1]

    async def read(self, path: str, params: Mapping[str, str], most: int) -> bytes:
        """Return the body of any path; ``ApiError`` if it has more than ``most`` bytes."""
        async with (
            self._turn,
            http_messages.raise_unreachable(),
            asyncio.timeout(self._timeout_s * _DEADLINE),
            self._http.stream("GET", path, params=params) as response,
        ):
            read = await http_messages.read_bounded(response, most)
            http_messages.raise_for_status(read)
            return read.content

    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        return http_messages.decode_object(*await self._send(method, path, params, body, content_type))

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[httpx2.Response, bytes]:
        request = self._requests.build(
            method,
            path,
            params,
            self._http.timeout,
            accept=accept,
            content=None if body is None else _encode(body),
            content_type=content_type,
            extensions=None if method == "GET" else self._extensions,
        )
        async with (
            self._turn,
            http_messages.raise_unreachable(),
            asyncio.timeout(self._timeout_s * _DEADLINE),
        ):
            response = await self._http.send(request, stream=True)
            content = await http_messages.read_body(response)
        http_messages.raise_for_status(response)
        return response, content
