"""Clients of a gateway that never pause: HTTP/1.1 and HTTP/2, streams and single answers, over TLS."""

import asyncio
import json
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
from aiohttp import web

from support.envoys import free_ports
from support.patience import PATIENCE_S

HOST = "models.example"
"""Host of the certificates."""

EVENTS = 12
REQUESTS_OF_A_CONNECTION = 100
"""Number of requests after which a client connects anew, and so sees the certificate of the moment."""

LEAVES = 0.03
"""Share of the streams that their client leaves before the end."""

Say = tuple[int, str]
"""Status and text of an answer."""


class Pool:
    """Names that clients may use, and how many requests use each."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self._used: Counter[str] = Counter()

    @contextmanager
    def drawn(self, draw: random.Random) -> Any:
        """Yield a name that stays in use meanwhile."""
        name = draw.choice(self.names)
        self._used[name] += 1
        try:
            yield name
        finally:
            self._used[name] -= 1

    async def retire(self, name: str) -> None:
        """Take a name out of use, and wait for the requests that use it."""
        self.names.remove(name)
        while self._used[name]:
            await asyncio.sleep(0.01)
        del self._used[name]


@dataclass(slots=True)
class Load:
    """What clients ask, and what came of it."""

    port: int
    authority: Path
    """Certificate authority to trust."""
    keys: Pool
    models: Pool
    """Names for the body's ``model``, on the one URL for all models."""
    paths: Pool
    """Services, NAMESPACE/SERVICE, that are asked by their path."""
    answers: Counter[str] = field(default_factory=Counter)
    """Complete answers, by the kind of the request."""
    revoked: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _draw: random.Random = field(default_factory=lambda: random.Random(20261123))  # noqa: S311 - a load

    @asynccontextmanager
    async def flowing(self, clients: int = 4) -> AsyncIterator[None]:
        """Run some clients of each version of HTTP."""
        asking = [asyncio.create_task(self._ask_on(kind)) for kind in (Http1, Http2) for _ in range(clients)]
        try:
            yield
        finally:
            self.over.set()
            await asyncio.gather(*asking)

    async def _ask_on(self, kind: "type[Http1 | Http2]") -> None:
        while not self.over.is_set():
            async with kind.connected(self) as client:
                for _ in range(REQUESTS_OF_A_CONNECTION):
                    await self._ask(client)
                    if self.over.is_set():
                        break

    async def _ask(self, client: "Http1 | Http2") -> None:
        stream, by_model = self._draw.random() < 0.5, self._draw.random() < 0.5
        leaves = stream and self._draw.random() < LEAVES
        with (
            (self.models if by_model else self.paths).drawn(self._draw) as name,
            self.keys.drawn(self._draw) as key,
        ):
            path = "/v1/chat/completions" if by_model else f"/{name}/v1/chat/completions"
            body = {"model": name, "stream": stream, "messages": [{"role": "user", "content": "word " * 50}]}
            kind = f"{client.version}{', stream' if stream else ''}{', left' if leaves else ''}"
            try:
                async with asyncio.timeout(PATIENCE_S):
                    status, text = await client.post(path, body, key, leaves=leaves)
            except Exception as error:  # noqa: BLE001 - whatever went wrong, it was no answer
                self.failures.append(f"{kind} {path} {name}: {type(error).__name__}: {error}")
                return
            if problem := self._problem(status, text, key, stream=stream, leaves=leaves):
                self.failures.append(f"{kind} {path} {name}: {problem}")
            else:
                self.answers["refused, revoked" if status == 401 else kind] += 1

    def _problem(self, status: int, text: str, key: str, *, stream: bool, leaves: bool) -> str:
        if status == 401 and key in self.revoked:
            return ""
        if status != 200:
            return f"{status} {text[:300]}"
        if leaves:
            return ""
        if stream:
            complete = text.count("data: {") == EVENTS and text.endswith("data: [DONE]\n\n")
        else:
            complete = json.loads(text)["choices"][0]["message"]["content"] == "word " * 20
        return "" if complete else f"not the whole answer: {text[-300:]}"


def trusting(authority: Path) -> ssl.SSLContext:
    """Return the TLS of one kind of client, which offers its version of HTTP."""
    return ssl.create_default_context(cafile=authority)


class Http1:
    """Client of HTTP/1.1."""

    version = "HTTP/1.1"

    def __init__(self, load: Load, session: aiohttp.ClientSession) -> None:
        self._load = load
        self._trust = trusting(load.authority)
        self._session = session

    @classmethod
    @asynccontextmanager
    async def connected(cls, load: Load) -> AsyncIterator["Http1"]:
        async with aiohttp.ClientSession() as session:
            yield cls(load, session)

    async def post(self, path: str, body: Any, key: str, *, leaves: bool = False, hold: bool = False) -> Say:
        async with self._session.post(
            f"https://127.0.0.1:{self._load.port}{path}",
            json=body,
            headers={"authorization": f"Bearer {key}"} | ({"x-hold": "1"} if hold else {}),
            ssl=self._trust,
            server_hostname=HOST,
        ) as response:
            if leaves:
                await response.content.readline()
                response.close()
                return response.status, ""
            return response.status, await response.text()


class Http2:
    """Client of HTTP/2."""

    version = "HTTP/2"

    def __init__(self, load: Load, client: httpx2.AsyncClient) -> None:
        self._load = load
        self._client = client

    @classmethod
    @asynccontextmanager
    async def connected(cls, load: Load) -> AsyncIterator["Http2"]:
        async with httpx2.AsyncClient(
            http2=True, http1=False, verify=trusting(load.authority), trust_env=False, timeout=PATIENCE_S
        ) as client:
            yield cls(load, client)

    async def post(self, path: str, body: Any, key: str, *, leaves: bool = False) -> Say:
        async with self._client.stream(
            "POST",
            f"https://127.0.0.1:{self._load.port}{path}",
            json=body,
            headers={"authorization": f"Bearer {key}"},
            extensions={"sni_hostname": HOST},
        ) as response:
            if leaves:
                return response.status_code, ""
            return response.status_code, (await response.aread()).decode()


@dataclass(slots=True)
class Engines:
    """Servers of the OpenAI API, which never end before their clients do."""

    ports: list[int]
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets streams end of requests that have the header ``x-hold``."""
    holding: int = 0
    """Number of requests with that header."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        asked = json.loads(content) if content else {}
        usage = {"prompt_tokens": 60, "completion_tokens": 20, "total_tokens": 80}
        if not asked.get("stream"):
            message = {"role": "assistant", "content": "word " * 20}
            return web.json_response({"choices": [{"index": 0, "message": message}], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.holding += "x-hold" in request.headers
        for number in range(EVENTS):
            event = {"choices": [{"delta": {"content": f"word {number}"}}]}
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
            await asyncio.sleep(0.01)
            if "x-hold" in request.headers:
                await self.held.wait()
        await response.write(
            f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode()
        )
        return response


@asynccontextmanager
async def running_engines(count: int) -> AsyncIterator[Engines]:
    """Run servers on ports of their own."""
    ports = free_ports()
    running = Engines([next(ports) for _ in range(count)])
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", running.answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for port in running.ports:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        yield running
    finally:
        await runner.cleanup()
