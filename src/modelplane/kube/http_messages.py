"""Messages of HTTP: requests to one server, and responses: an object, a failure, or an endless stream.

httpx parses a URL four times and each header twice for a request that it builds. A fleet's controllers spent
an eighth of their processor time on it.
"""

import random
import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import httpx2
import msgspec

from modelplane.kube import errors
from modelplane.kube.resources import Object, Resource

WATCH_SECONDS = 3600
"""Longest duration of a watch request; then it is opened again.

The duration is random, so that watches that began together do not end together.
"""

SILENCE_S = 90.0
"""Silence after which a watch over HTTP/1.1 is opened again: a server that is gone is silent too, and
bookmarks are not guaranteed."""

_TARGET = "target"
"""The extension of a request with its path and query as they are sent (httpx's own name for it)."""
_OF_A_REQUEST = frozenset({b"accept", b"content-type", b"content-length", b"host"})
_AS_IT_IS = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~:-]*)+").fullmatch
"""Matches the paths that a parser leaves as they are: no segment is empty or begins with a dot."""
_HTTP1_HEADERS = frozenset({b"connection", b"host", b"keep-alive", b"transfer-encoding", b"upgrade"})
_LONGEST_TEXT = 200
"""Characters that are quoted of an answer that is not Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The objects of one list, and the resource version from which to watch."""

    items: tuple[Object, ...]
    resource_version: str
    rest: str = ""
    """Token to continue from; empty if the list is complete."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``."""

    type: str
    object: Object


def decode_list(answer: Object, resource: Resource) -> ObjectList:
    """Return the list that a server answered."""
    # The items of a list carry neither kind nor apiVersion; a reader should not have to know.
    # An empty list of partial metadata is null.
    items = answer.get("items") or ()
    for item in items:
        item["apiVersion"], item["kind"] = resource.api_version, resource.kind
    metadata = answer["metadata"]
    return ObjectList(tuple(items), metadata["resourceVersion"], metadata.get("continue") or "")


def build_watch_parameters(resource_version: str) -> dict[str, str]:
    """Return the parameters of a watch after a resource version."""
    return {
        "watch": "true",
        "resourceVersion": resource_version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(random.randint(WATCH_SECONDS // 2, WATCH_SECONDS)),  # noqa: S311 - jitter
    }


def build_page_parameters(limit: int, resource_version: str, rest: str) -> dict[str, str]:
    """Return the parameters of one page of a list, as of a resource version if one is given."""
    params = {"limit": str(limit)}
    if rest:
        return params | {"continue": rest}
    if resource_version:
        params |= {"resourceVersion": resource_version, "resourceVersionMatch": "Exact"}
    return params


def decode_event(line: bytes, resource: Resource) -> WatchEvent:
    """Return the change in a line of a watch; raise an error that the line has instead."""
    event: Object = decode(line)
    content: Object = event["object"]
    if event["type"] == "ERROR":
        raise errors.from_status(
            content.get("code", 500), content.get("reason", ""), content.get("message", "")
        )
    content["apiVersion"], content["kind"] = resource.api_version, resource.kind
    return WatchEvent(event["type"], content)


def choose_media_type(metadata_only: bool, suffix: str) -> str:
    """Return the media type of whole objects, or of their metadata only."""
    if not metadata_only:
        return "application/json"
    return f"application/json;as=PartialObjectMetadata{suffix};v=v1;g=meta.k8s.io"


def build_selectors(labels: str, fields: str) -> dict[str, str]:
    """Return the parameters of a label selector and of a field selector."""
    params = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in params.items() if value}


class _Request(httpx2.Request):
    """A request whose URL is parsed only for those who read it."""

    def __init__(  # it sets what httpx does, which would parse a URL and copy the headers once more
        self, method: str, url: str | httpx2.URL, headers: httpx2.Headers, content: bytes, extensions: Any
    ) -> None:
        self.method = method
        self._url = url
        self.headers = headers
        self.extensions = extensions
        self.stream = httpx2.ByteStream(content)

    @property
    def url(self) -> httpx2.URL:
        """The URL of the request."""
        if isinstance(self._url, str):
            self._url = httpx2.URL(self._url)
        return self._url

    @url.setter
    def url(self, url: str | httpx2.URL) -> None:
        self._url = url


class Requests:
    """Builds the requests of one client."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._base = str(http.base_url).rstrip("/")
        self._prefix = http.base_url.raw_path.decode().rstrip("/")
        self._common = [
            (b"Host", http.base_url.netloc),
            *(header for header in http.headers.raw if header[0].lower() not in _OF_A_REQUEST),
        ]
        self._headers: dict[tuple[str, str], httpx2.Headers] = {}

    def build(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        timeout: httpx2.Timeout,
        *,
        accept: str = "*/*",
        content: bytes | None = None,
        content_type: str = "",
        extensions: Mapping[str, Any] | None = None,
    ) -> httpx2.Request:
        """Return a request; without credentials, which are added when it is sent."""
        query = f"?{_encoded(tuple(params.items()))}" if params else ""
        url: str | httpx2.URL = f"{self._base}{path}{query}"
        target = {}
        if _AS_IT_IS(path):
            target = {_TARGET: f"{self._prefix}{path}{query}".encode()}
        else:
            url = httpx2.URL(url)
        headers = self._headers_of(accept, content_type if content is not None else "")
        if content is not None:
            headers["Content-Length"] = str(len(content))
        further = {**(extensions or {}), "timeout": timeout.as_dict(), **target}
        return _Request(method, url, headers, content or b"", further)

    def _headers_of(self, accept: str, content_type: str) -> httpx2.Headers:
        """Return the headers of a kind of requests, to be changed by the caller."""
        headers = self._headers.get((accept, content_type))
        if headers is None:
            own = {"Accept": accept, "Content-Type": content_type}
            given = [(name.encode(), value.encode()) for name, value in own.items() if value]
            headers = httpx2.Headers([*self._common, *given], encoding="ascii")
            self._headers[accept, content_type] = headers
        return headers.copy()


def build_http2_headers(request: httpx2.Request) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request over TLS as HTTP/2 has them."""
    fields = [(name.lower(), value) for name, value in request.headers.raw]
    return [
        (b":method", request.method.encode()),
        (b":authority", next(value for name, value in fields if name == b"host")),
        (b":scheme", b"https"),
        (b":path", request.extensions.get(_TARGET) or request.url.raw_path),
        *(field for field in fields if field[0] not in _HTTP1_HEADERS),
    ]


@lru_cache(256)
def _encoded(params: tuple[tuple[str, str], ...]) -> str:
    """Return parameters as a query; those of writes are the same each time."""
    return urlencode(params)


decode = msgspec.json.Decoder().decode


@asynccontextmanager
async def raise_unreachable() -> AsyncIterator[None]:
    """Turn everything that keeps a request from being answered into ``Unreachable``.

    Besides the network's errors, that is whatever authentication raises (an exec plugin that fails or
    hangs), and a client that was closed meanwhile.
    """
    try:
        yield
    except errors.KubernetesError:
        raise
    except Exception as error:
        raise errors.Unreachable(errors.describe_error(error)) from error


async def read_lines(response: httpx2.Response, *, unfinished: bool = False) -> AsyncIterator[bytes]:
    """Yield what stands between newlines, and nothing else: other line ends may occur within a string.

    What comes after the last of them is left out, unless ``unfinished`` asks for it.
    """
    rest = b""
    async for chunk in _pieces(response):
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield line
    if unfinished and rest:
        yield rest


def _pieces(response: httpx2.Response) -> AsyncIterable[bytes]:
    """Return the pieces of a body: as they arrive, unless they have to be decoded.

    httpx passes each through four generators.
    """
    if "content-encoding" in response.headers or not isinstance(response.stream, httpx2.AsyncByteStream):
        return response.aiter_bytes()
    return response.stream


async def read_body(response: httpx2.Response) -> bytes:
    """Return the body of a response, and close it; a response that is a failure has its body from then on."""
    try:
        if response.is_error:
            return await response.aread()
        return b"".join([chunk async for chunk in _pieces(response)])
    finally:
        await response.aclose()


async def read_bounded(response: httpx2.Response, most: int) -> httpx2.Response:
    """Return a response with its body, which was not read yet; ``ApiError`` if that has more bytes."""
    read = bytearray()
    async for chunk in response.aiter_bytes():
        read += chunk
        if len(read) > most:
            where = response.url.copy_with(query=None)
            raise errors.ApiError(response.status_code, "", f"{where} answers more than {most // 2**20} MiB")
    return httpx2.Response(response.status_code, content=bytes(read), request=response.request)


def decode_object(response: httpx2.Response, content: bytes) -> Object:
    """Return the object in the body of a response; ``ApiError`` if it is not one of Kubernetes."""
    try:
        answer = decode(content)
    except msgspec.DecodeError:
        answer = None
    if not isinstance(answer, dict) or "kind" not in answer:
        raise errors.ApiError(
            response.status_code, "", f"{response.url.copy_with(query=None)} answers no Kubernetes object"
        )
    return answer


def raise_for_status(response: httpx2.Response) -> None:
    """Raise the error that a server answered, if it is one."""
    if not response.is_error:
        return
    try:
        status = decode(response.content)
        reason, message = status.get("reason", ""), status.get("message", "")
    except (msgspec.DecodeError, AttributeError):
        # Whatever stands in front of the server: often a whole page.
        reason, message = "", " ".join(response.text.split())[:_LONGEST_TEXT]
    raise errors.from_status(response.status_code, reason, message or response.reason_phrase)
