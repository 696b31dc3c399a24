"""Responses of an API server: an object, a failure, or an endless stream of lines."""

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec

from modelplane.kube import errors
from modelplane.kube.resources import Object

_LONGEST_TEXT = 200
"""Characters that are quoted of an answer that is not Kubernetes' own."""

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
