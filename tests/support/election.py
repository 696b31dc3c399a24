"""Candidates of an election, and an API server with their lease whose network does what a test says."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from modelplane.controllers.leader import Election
from modelplane.kube.client import Client


class Leases:
    """An API server with one lease, whose network does what the test says."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self._version = 0
        self.way: Callable[[str], Awaitable[None]] = self._at_once
        """Waited for on the way to the server, and back without `back`; raises where a message is lost."""
        self.back: Callable[[str], Awaitable[None]] | None = None

    @staticmethod
    async def _at_once(_identity: str) -> None:
        return

    def client(self, identity: str) -> Client:
        async def answer(request: httpx2.Request) -> httpx2.Response:
            await self.way(identity)
            response = self._answer(request)
            await (self.back or self.way)(identity)
            return response

        http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(answer))
        return Client(http, "modelplane")

    def touch(self) -> None:
        """Change the lease as another program does: it gets another version."""
        if self.lease is not None:
            self._version += 1
            self.lease = {**self.lease, "metadata": {"resourceVersion": str(self._version)}}

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return self._found() if self.lease else _refused(404)
        body = json.loads(request.content)
        version = body["metadata"].get("resourceVersion")
        if version != (self.lease and self.lease["metadata"]["resourceVersion"]):
            return _refused(409)
        self._version += 1
        before = self.lease["spec"] if self.lease else {}
        self.lease = {
            "kind": "Lease",
            "metadata": {"resourceVersion": str(self._version)},
            "spec": before | body["spec"],
        }
        return self._found()

    def _found(self) -> httpx2.Response:
        return httpx2.Response(200, json=self.lease)


def _refused(code: int) -> httpx2.Response:
    return httpx2.Response(code, json={"kind": "Status", "message": "refused"})


class Process:
    """A candidate that notes when it worked."""

    def __init__(self, leases: Leases, identity: str) -> None:
        self.identity = identity
        self.killed_at: float | None = None
        """Time from which its work is no work any more."""
        self._client = leases.client(identity)
        self.election = Election(
            self._client,
            "modelplane-system",
            identity=identity,
            clock=lambda: asyncio.get_running_loop().time(),
        )
        self.began: list[float] = []
        self.ended: list[float] = []
        self.task: asyncio.Task[None] = asyncio.create_task(self.election.lead(self._work))

    async def _work(self) -> None:
        now = asyncio.get_running_loop().time
        self.began.append(now())
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(now())

    @property
    def is_deposed(self) -> bool:
        """True if it ended because it lost the lease."""
        return self.task.done() and not self.task.cancelled() and bool(self.task.exception())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._client.close()
