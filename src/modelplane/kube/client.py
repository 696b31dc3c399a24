"""One API server, spoken to in plain objects.

lightkube reads the kubeconfig and authenticates (certificates, tokens, exec
plugins); requests and answers are raw JSON, so that a kind needs no model of
its own and nothing that the server sent is lost.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig

from modelplane.kube import errors
from modelplane.kube.multiplexed import BODY_STARTED, HEADERS_STARTED, Multiplexed
from modelplane.kube.resources import Object, Resource, resource_of

_CONTENT_TYPES = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

WATCH_SECONDS = 3600
"""How long a watch request lasts at most before the server ends it and it is opened again.

Each lasts another time, so that those that began together do not end together.
"""

_SILENCE_S = 90.0
"""How long a watch over HTTP/1.1 may say nothing before it is opened anew: a server that went away unseen
says nothing either, and none promises bookmarks."""

_DEADLINE = 3
"""How many times the time-out a whole request may take, whatever the server sends meanwhile."""

_AT_A_TIME = 32
"""How many requests may be under way, watches apart; the others wait for their turn without a time-out."""

_LONGEST_TEXT = 200
"""How much is told of an answer that is not the server's own."""

Fence = Callable[[], str]
"""Why nothing may be written at this moment; empty while it may."""

_LAST_MOMENTS = frozenset(
    {
        "http11.send_request_headers.started",
        "http11.send_request_body.started",
        HEADERS_STARTED,
        BODY_STARTED,
    }
)
"""What a transport tells of just before it hands bytes to the kernel."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The objects of one list, and the resource version from which to watch."""

    items: tuple[Object, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``."""

    type: str
    object: Object


class Client:
    """A connection pool to one API server under one identity."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        field_manager: str,
        timeout_s: float = 10.0,
        fence: Fence | None = None,
    ) -> None:
        self._http = http
        self._timeout_s = timeout_s
        self._turn = asyncio.Semaphore(_AT_A_TIME)
        self._extensions = {} if fence is None else {"trace": _stopping(fence)}
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
    ) -> Self:
        """Connect as the current context of a kubeconfig, or a named one, given as a path or as its content.

        Nothing is sent yet. Raises ``ValueError`` for a kubeconfig that cannot be used. ``fence`` is asked
        before each write, at the last moment.
        """
        try:
            if isinstance(kubeconfig, str):
                config = KubeConfig.from_file(kubeconfig)
            else:
                config = KubeConfig.from_dict(dict(kubeconfig))
            http = _http(config, timeout_s, context)
        except Exception as error:
            # Certificates are read here too, and what is wrong with them is not one kind of error.
            raise ValueError(f"cannot use the kubeconfig: {_sentence(error)}") from error
        return cls(http, field_manager, timeout_s, fence)

    @classmethod
    def in_cluster(
        cls,
        *,
        account: Path = Path(SERVICE_ACCOUNT),
        field_manager: str = "modelplane",
        timeout_s: float = 10.0,
        fence: Fence | None = None,
    ) -> Self:
        """Connect as the service account of the pod that this runs in.

        Its token is read again whenever the server no longer takes the one before. Raises ``ValueError``
        where this is no pod, or one without a service account.
        """
        try:
            http = _http(KubeConfig.from_service_account(account), timeout_s)
        except Exception as error:
            missing = f"there is no {error.args[0]}" if isinstance(error, KeyError) else _sentence(error)
            raise ValueError(f"cannot use a pod's service account: {missing}") from error
        return cls(http, field_manager, timeout_s, fence)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, watches included."""
        await self._http.aclose()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """Return one object, or None where there is none."""
        try:
            return await self._request("GET", resource.path(namespace, name))
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
            "GET", resource.path(namespace), _selectors(labels, fields), accept=_accept(metadata_only, "List")
        )
        answer = _object(response)
        # The items of a list carry neither kind nor apiVersion; a reader should not have to know.
        # An empty list of partial metadata is null.
        items = answer.get("items") or ()
        for item in items:
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        return ObjectList(tuple(items), answer["metadata"]["resourceVersion"])

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
        params = _selectors(labels, fields) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(WATCH_SECONDS // 2, WATCH_SECONDS)),  # noqa: S311 - jitter
        }
        request = self._http.build_request(
            "GET",
            resource.path(namespace),
            params=params,
            headers={"Accept": _accept(metadata_only, "")},
            timeout=httpx2.Timeout(self._timeout_s, read=_SILENCE_S),
        )
        async with _answering():
            async with asyncio.timeout(self._timeout_s * _DEADLINE):
                response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    _raise_for_status(response)
                async for line in _lines(response):
                    yield _event(line, resource)
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
        resource = resource_of(manifest)
        metadata = manifest["metadata"]
        params = {
            "fieldManager": self.field_manager,
            "fieldValidation": "Strict",
            "force": "true" if force else "false",
        }
        if dry_run:
            params["dryRun"] = "All"
        path = resource.path(metadata.get("namespace"), metadata["name"], subresource)
        return await self._request("PATCH", path, params, manifest, _CONTENT_TYPES["apply"])

    async def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create an object; ``Conflict`` when its name is taken."""
        path = resource_of(manifest).path(manifest["metadata"].get("namespace"))
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
        path = resource.path(namespace, name, subresource)
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
            await self._request("DELETE", resource.path(namespace, name), None, options)
        except errors.NotFound:
            return

    async def serves(self, resource: Resource) -> bool:
        """Whether the server has a kind, by its own word (the discovery API).

        A 404 alone is not that: a proxy or a load balancer in front of a server says it too. Raises
        ``KubernetesError`` where the server gives no clear answer.
        """
        prefix = resource.path(None).removesuffix(f"/{resource.plural}")
        try:
            found = await self._request("GET", prefix)
            return any(each["name"] == resource.plural for each in found.get("resources") or ())
        except errors.NotFound as error:
            groups = await self._request("GET", "/apis")
            if groups.get("kind") != "APIGroupList" or _has_version(groups, resource):
                raise errors.ApiError(404, "", f"cannot tell whether there is {prefix}") from error
            return False

    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of any path that may go on for ever, such as a log that is followed.

        A server may say nothing at all, not even that it has begun to answer, until there is a line.
        """
        request = self._http.build_request(
            "GET", path, params=params, timeout=httpx2.Timeout(self._timeout_s, read=None)
        )
        async with _answering():
            response = await self._http.send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    _raise_for_status(response)
                async for line in _lines(response, unfinished=True):
                    yield line
            finally:
                await response.aclose()

    async def get_raw(self, path: str) -> bytes:
        """Return the body of any path, such as ``/readyz``."""
        return (await self._send("GET", path)).content

    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        return _object(await self._send(method, path, params, body, content_type))

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> httpx2.Response:
        content = None if body is None else _encode(body)
        headers = {"Accept": accept} | ({} if content is None else {"Content-Type": content_type})
        extensions = None if method == "GET" else self._extensions
        async with self._turn, _answering(), asyncio.timeout(self._timeout_s * _DEADLINE):
            response = await self._http.request(
                method, path, params=params, content=content, headers=headers, extensions=extensions
            )
        _raise_for_status(response)
        return response


def _http(config: KubeConfig, timeout_s: float, context: str = "") -> httpx2.AsyncClient:
    single = config.get(context or None)
    if single is None:
        raise ValueError("it has no current context")
    settings = ConnectionParams(timeout=httpx2.Timeout(timeout_s), trust_env=False).httpx_params(single)
    if str(settings["base_url"]).startswith("https:"):
        settings["transport"] = Multiplexed(settings["verify"])
    return httpx2.AsyncClient(**settings)


def _stopping(fence: Fence) -> Callable[[str, Any], Awaitable[None]]:
    """Return what httpcore calls at each step of a request, and what ends one that may not be sent.

    A request may have waited long for a connection, or the whole process may have been stopped, since
    whoever writes decided to.
    """

    async def step(name: str, _info: Any) -> None:
        if name in _LAST_MOMENTS and (why := fence()):
            raise errors.Fenced(why)

    return step


@asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    """Turn everything that keeps a request from being answered into ``Unreachable``.

    Besides the network's errors, that is whatever authentication raises (an exec plugin that fails or
    hangs), and a client that was closed meanwhile.
    """
    try:
        yield
    except errors.KubernetesError:
        raise
    except Exception as error:
        raise errors.Unreachable(_sentence(error)) from error


async def _lines(response: httpx2.Response, *, unfinished: bool = False) -> AsyncIterator[bytes]:
    """Yield what stands between newlines, and nothing else: other line ends may occur within a string.

    What comes after the last of them is left out, unless ``unfinished`` asks for it.
    """
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if unfinished and rest:
        yield rest


def _event(line: bytes, resource: Resource) -> WatchEvent:
    event: Object = _decode(line)
    content: Object = event["object"]
    if event["type"] == "ERROR":
        raise errors.from_status(
            content.get("code", 500), content.get("reason", ""), content.get("message", "")
        )
    content["apiVersion"], content["kind"] = resource.api_version, resource.kind
    return WatchEvent(event["type"], content)


def _object(response: httpx2.Response) -> Object:
    try:
        answer = _decode(response.content)
    except msgspec.DecodeError:
        answer = None
    if not isinstance(answer, dict) or "kind" not in answer:
        raise errors.ApiError(
            response.status_code, "", f"{response.url.copy_with(query=None)} answers no Kubernetes object"
        )
    return answer


def _has_version(groups: Object, resource: Resource) -> bool:
    return any(
        version["groupVersion"] == resource.api_version
        for group in groups.get("groups") or ()
        for version in group["versions"]
    )


def _accept(metadata_only: bool, suffix: str) -> str:
    if not metadata_only:
        return "application/json"
    return f"application/json;as=PartialObjectMetadata{suffix};v=v1;g=meta.k8s.io"


def _selectors(labels: str, fields: str) -> dict[str, str]:
    params = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in params.items() if value}


def _raise_for_status(response: httpx2.Response) -> None:
    if not response.is_error:
        return
    try:
        status = _decode(response.content)
        reason, message = status.get("reason", ""), status.get("message", "")
    except (msgspec.DecodeError, AttributeError):
        # Whatever stands in front of the server: often a whole page.
        reason, message = "", " ".join(response.text.split())[:_LONGEST_TEXT]
    raise errors.from_status(response.status_code, reason, message or response.reason_phrase)


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__
