"""A way to a server that a test can make slow, silent or refusing."""

import asyncio
from enum import StrEnum
from typing import Self


class Manner(StrEnum):
    """How a relay treats what passes."""

    PASSES = "passes everything on"
    SILENT = "accepts connections and passes nothing on"
    REFUSES = "refuses connections"
    SLOW = "passes every answer on late"


class Relay:
    """Listens on a port of its own, and passes bytes on to another port of this machine."""

    def __init__(self, upstream: int, delay_s: float) -> None:
        """``delay_s``: how late an answer comes while the relay is slow."""
        self.port = 0
        self._upstream = upstream
        self._delay_s = delay_s
        self._manner = Manner.PASSES
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._end()

    async def behave(self, manner: Manner) -> None:
        """Treat what passes in another manner from now on; connections that are open end with a change."""
        if manner is not self._manner:
            self._manner = manner
            await self._end()
            if manner is not Manner.REFUSES:
                await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        passing = [*self._passing]
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            if self._manner is Manner.SILENT:
                await asyncio.Event().wait()
            away, out = await asyncio.open_connection("127.0.0.1", self._upstream)
            try:
                await self._pass(reader, writer, away, out)
            finally:
                out.transport.abort()
        except asyncio.CancelledError:
            return  # the stream server would log it
        finally:
            self._passing.discard(task)
            writer.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        away: asyncio.StreamReader,
        out: asyncio.StreamWriter,
    ) -> None:
        late_s = self._delay_s if self._manner is Manner.SLOW else 0.0
        both = [
            asyncio.create_task(_pump(reader, out, 0.0)),
            asyncio.create_task(_pump(away, writer, late_s)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late_s: float) -> None:
    while data := await reader.read(1 << 16):
        await asyncio.sleep(late_s)
        writer.write(data)
        await writer.drain()
