"""A headless Chromium, driven over the Chrome DevTools Protocol."""

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from support.patience import PATIENCE_S

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Path of the browser; None if there is none."""


class Tab:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.requests: list[str] = []
        """URLs that the page has asked for."""
        self.complaints: list[str] = []
        """Errors of scripts, and what a policy has blocked."""

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self._socket.receive_json()
                if answer.get("id") == number:
                    assert "error" not in answer, answer
                    return dict(answer["result"])
                self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}".rstrip())

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page; between two pages it has no value."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self.evaluate(
                f"(() => {{ try {{ return {expression} }} catch {{ return false }} }})()"
            ):
                await asyncio.sleep(0.05)

    async def open(self, address: str) -> None:
        """Open a page, and wait until it is complete."""
        await self.evaluate("window.left = true")
        await self.send("Page.navigate", url=address)
        await self.until(
            "!window.left && document.readyState === 'complete' && location.href !== 'about:blank'"
        )

    async def look(
        self, *, dark: bool = False, width: int = 1280, height: int = 800, touch: bool = False
    ) -> None:
        """Set the color scheme and the size of the window."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )

    async def press_tab(self) -> None:
        """Press the Tab key."""
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
            )

    async def picture(self, path: Path) -> None:
        """Write what the window shows."""
        shot = await self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240 - a small file

    async def accessible(self) -> list[dict[str, Any]]:
        """Return the nodes that a screen reader is given."""
        tree = await self.send("Accessibility.getFullAXTree")
        return [node for node in tree["nodes"] if not node.get("ignored")]


@contextlib.asynccontextmanager
async def tab() -> AsyncIterator[Tab]:
    """Run the browser inside the block."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *(
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ),
            *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
            *("--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {"HOME": profile},
        )
        try:
            port = await _port(Path(profile))
            async with aiohttp.ClientSession() as session, _connected(session, port) as socket:
                opened = Tab(socket)
                for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
                    await opened.send(f"{domain}.enable")
                yield opened
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(profile: Path) -> int:
    said = profile / "DevToolsActivePort"
    async with asyncio.timeout(PATIENCE_S):
        while not (said.exists() and said.read_text()):
            await asyncio.sleep(0.05)
    return int(said.read_text().splitlines()[0])


@contextlib.asynccontextmanager
async def _connected(
    session: aiohttp.ClientSession, port: int
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with session.get(f"http://127.0.0.1:{port}/json") as answer:
        pages = [each for each in await answer.json() if each["type"] == "page"]
    async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        yield socket
