"""Server of the page: HTTP on loopback, and one event stream per open tab.

A stream sends at most once a second, and only the fragments that changed. The pages are rendered in threads.

The page shows what the viewer's kubeconfig may read. Three checks guard it: the ``Host`` of a request is a
name of loopback (against DNS rebinding), its ``Origin`` is the page's own (against other sites), and it
carries a key that is made at each start and is part of the printed address (against other users).
"""

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import resources
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from modelplane.dashboard.explanations import MOST_BYTES
from modelplane.dashboard.pages import Page, Pages, View

LOOPBACK: Final = "127.0.0.1"

_HOSTS: Final = (LOOPBACK, "localhost", "[::1]")

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_KEY: Final = "key"

_PUSH_EVERY_S: Final = 1.0
_BEAT_EVERY_S: Final = 5.0
_SHUTDOWN_S: Final = 1.0
_STATIC: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "mark.svg": "image/svg+xml",
}


class Access:
    """The checks of every request."""

    def __init__(self) -> None:
        self._key = secrets.token_urlsafe(24)
        self.port = 0

    def build_address(self) -> str:
        """Return the address to open."""
        return f"http://{LOOPBACK}:{self.port}/?{_KEY}={self._key}"

    @property
    def cookie(self) -> str:
        """Name of the cookie with the key: browsers do not tell the ports of a host apart."""
        return f"modelplane-{self.port}"

    async def set_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the headers of a response."""
        response.headers.update(_HEADERS)

    def build_middleware(self) -> Middleware:
        """Return the checks as aiohttp's middleware."""

        @web.middleware
        async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
            hosts = {f"{name}:{self.port}" for name in _HOSTS}
            if request.headers.get("Host", "") not in hosts:
                return _refused(421, "This page is served on loopback only.")
            origin = request.headers.get("Origin")
            if origin is not None and origin not in {f"http://{host}" for host in hosts}:
                return _refused(403, "Requests of other sites are refused.")
            if request.method == "POST" and origin is None:
                return _refused(403, "The request does not say which site it is from.")
            if self._is_key(request.query.get(_KEY, "")):
                return self._admit(request)
            if not self._is_key(request.cookies.get(self.cookie, "")):
                return _refused(403, "Open the address that `modelplane dashboard` printed.")
            return await handler(request)

        return checked

    def _is_key(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._key.encode())

    def _admit(self, request: web.Request) -> web.StreamResponse:
        """Keep the key in a cookie, and take it out of the address."""
        rest = {name: value for name, value in request.query.items() if name != _KEY}
        response = web.Response(status=303, headers={"Location": str(request.rel_url.with_query(rest))})
        response.set_cookie(self.cookie, self._key, httponly=True, samesite="Strict", path="/")
        return response


def _refused(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=f"{why}\n")


class Server:
    """Serves the pages of one fleet."""

    def __init__(self, pages: Pages, view: Callable[[], View]) -> None:
        self._pages = pages
        self._view = view
        self._access = Access()
        self._planning = asyncio.Lock()
        self._closing = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serve(self, port: int) -> AsyncIterator[str]:
        """Serve inside the block, to which the address is given; port 0 stands for any free one."""
        application = web.Application(
            middlewares=[self._access.build_middleware()], client_max_size=4 * MOST_BYTES
        )
        application.on_response_prepare.append(self._access.set_headers)
        application.router.add_get("/static/{name}", _static)
        application.router.add_get("/live", self._live)
        application.router.add_post("/plan", self._plan)
        application.router.add_get("/{path:.*}", self._page)
        # An access log would have the key that is in the first address.
        runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=_SHUTDOWN_S, handler_cancellation=True
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
            self._access.port = int(runner.addresses[0][1])
            yield self._access.build_address()
        finally:
            self._closing.set()
            await runner.cleanup()

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return _answer(await self._render(request.rel_url.raw_path, request.query))

    async def _render(self, path: str, query: Mapping[str, str]) -> Page:
        return await asyncio.to_thread(self._pages.render, path, dict(query), self._view())

    async def _plan(self, request: web.Request) -> web.StreamResponse:
        text = (await request.post()).get("manifest", "")
        if not isinstance(text, str) or len(text) > MOST_BYTES:
            return web.Response(status=413, text=f"A manifest has at most {MOST_BYTES // 1024} KiB.\n")
        # One after the other: a plan can take the processor for seconds.
        async with self._planning:
            page = await asyncio.to_thread(self._pages.plan, text, self._view())
        return _answer(page)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """Send the changes of one page until its tab closes."""
        path, _, asked = request.query.get("page", "/").partition("?")
        query = dict(parse_qsl(asked))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        version, fragments, beat_at = request.query.get("version", ""), None, 0.0
        while not self._closing.is_set():
            now = time.monotonic()
            if now >= beat_at:
                await _send(response, "beat", str(round(time.time() * 1000)))
                beat_at = now + _BEAT_EVERY_S
            view = self._view()
            if fragments is None or view.version != version:
                page = await self._render(path, query)
                # A tab that is of this version has these fragments already.
                before = page.fragments if fragments is None and view.version == version else fragments
                await _send_changes(response, before, page, view.version)
                fragments, version = page.fragments, view.version
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PUSH_EVERY_S):
                    await self._closing.wait()
        return response


def _answer(page: Page) -> web.Response:
    response = web.Response(text=page.html, content_type="text/html", status=page.status)
    response.enable_compression()
    return response


async def _send_changes(
    response: web.StreamResponse, before: Mapping[str, str] | None, page: Page, version: str
) -> None:
    if before is not None and before.keys() != page.fragments.keys():
        await _send(response, "page", "")
        return
    fragments = before or {}
    changed = {name: html for name, html in page.fragments.items() if fragments.get(name) != html}
    if changed:
        document = msgspec.json.encode({"fragments": changed, "version": version}).decode()
        await _send(response, "fragments", document)


async def _send(response: web.StreamResponse, event: str, data: str) -> None:
    await response.write(f"event: {event}\ndata: {data}\n\n".encode())


async def _static(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    if name not in _STATIC:
        return web.Response(status=404)
    file = resources.files("modelplane.dashboard").joinpath("static", name)
    return web.Response(text=file.read_text(encoding="utf-8"), content_type=_STATIC[name])
