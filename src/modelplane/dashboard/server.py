"""Server of the page: HTTP on loopback, and one event stream per open tab.

A stream sends at most once a second, and only the fragments that changed. The pages are rendered in threads.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import resources
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from modelplane.dashboard.access import LOOPBACK, Access
from modelplane.dashboard.explanations import MOST_BYTES
from modelplane.dashboard.page_rendering import Page
from modelplane.dashboard.pages import Pages, View

_PUSH_EVERY_S: Final = 1.0
_BEAT_EVERY_S: Final = 5.0
_SHUTDOWN_S: Final = 1.0

_STATIC: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "mark.svg": "image/svg+xml",
}


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
            site = web.TCPSite(runner, LOOPBACK, port)
            await site.start()
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
        form = await request.post()
        text = form.get("manifest", "")
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
