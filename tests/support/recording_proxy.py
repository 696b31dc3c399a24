"""An API server seen through a proxy that notes every write, and whose it was."""

import base64
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml
from aiohttp import web

from modelplane.local.kubernetes.control_plane import Pki
from support import certificates
from support.fleets import ControlPlane

READS = frozenset({"GET", "HEAD"})
_LARGEST = 8 * 1024 * 1024
_OF_ONE_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length"})


@dataclass(frozen=True, slots=True)
class Write:
    """One request that was to change something."""

    pid: int
    at: float
    method: str
    path: str
    status: int
    """What the server answered; 0 while it has not."""


@dataclass(slots=True)
class RecordingProxy:
    """Passes requests on as one identity."""

    url: str
    authority: Path
    """Certificate authority of its own certificate."""
    upstream: str
    session: aiohttp.ClientSession
    writes: list[Write] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    """The processes that may come here."""
    _owners: dict[tuple[str, int], int] = field(default_factory=dict)

    def kubeconfig(self) -> str:
        """Return a kubeconfig that leads here."""
        return yaml.safe_dump(
            {
                "clusters": [
                    {
                        "name": "proxy",
                        "cluster": {
                            "server": self.url,
                            "certificate-authority-data": base64.b64encode(
                                self.authority.read_bytes()
                            ).decode(),
                        },
                    }
                ],
                "users": [{"name": "proxy", "user": {}}],
                "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
                "current-context": "proxy",
            }
        )

    def by(self, pid: int, since: float = 0.0) -> list[Write]:
        """Return the writes of a process, in the order in which they came."""
        return [write for write in self.writes if write.pid == pid and write.at >= since]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on."""
        number = len(self.writes)
        if request.method not in READS:
            pid = self._owner(request.transport.get_extra_info("peername") if request.transport else ("", 0))
            self.writes.append(Write(pid, time.monotonic(), request.method, request.path, 0))
        body = await request.read()
        async with self.session.request(
            request.method, self.upstream + request.raw_path, data=body, headers=_passed(request.headers)
        ) as found:
            if request.method not in READS:
                began = self.writes[number]
                self.writes[number] = Write(began.pid, began.at, began.method, began.path, found.status)
            response = web.StreamResponse(status=found.status, headers=_passed(found.headers))
            await response.prepare(request)
            async for chunk in found.content.iter_any():
                await response.write(chunk)
            return response

    def _owner(self, peer: tuple[str, int]) -> int:
        if peer not in self._owners:
            self._owners[peer] = next((pid for pid in self.pids if _has(pid, peer)), 0)
        return self._owners[peer]


def _has(pid: int, address: tuple[str, int]) -> bool:
    try:
        return any(each.laddr == address for each in psutil.Process(pid).net_connections("tcp"))
    except psutil.NoSuchProcess:
        return False


def _passed(headers: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_HOP}


@asynccontextmanager
async def recording(plane: ControlPlane, directory: Path) -> AsyncIterator[RecordingProxy]:
    """Run a proxy that is the administrator to a control plane, with its certificates in a directory."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    pki = Pki(plane.home.pki)
    context = ssl.create_default_context(cafile=pki.authority)
    context.load_cert_chain(pki.find_certificate("admin"), pki.find_key("admin"))
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    session = aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
    )
    async with session:
        application = web.Application(client_max_size=_LARGEST)
        authority = certificates.authority(directory)
        proxy = RecordingProxy("", authority, config["clusters"][0]["cluster"]["server"], session)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        served = certificates.server_context(directory, "localhost")
        served.set_alpn_protocols(["http/1.1"])
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=served).start()
        _, port = runner.addresses[0]
        proxy.url = f"https://localhost:{port}"
        try:
            yield proxy
        finally:
            await runner.cleanup()
