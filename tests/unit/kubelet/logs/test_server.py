"""The log server over real TLS, with a stand-in for the workers of pods."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelplane.kubelet.log_server import API_SERVER, LogServer, ServerSettings
from modelplane.kubelet.pods.views import Waiting
from modelplane.local.kubernetes import pki
from modelplane.local.kubernetes.control_plane import Pki
from modelplane.local.kubernetes.pki import Identity

LOG = "/containerLogs/ml-team/gemma/engine"
STRANGER = "somebody"


class Container:
    """A container whose log is two lines, and then silence if it is followed."""

    def __init__(self, attempts: int) -> None:
        self.view = SimpleNamespace(state=Waiting("ErrImagePull"))
        self.directory = self
        self.attempts = attempts
        self.is_read = asyncio.Event()
        self.is_left = asyncio.Event()

    def find_latest(self) -> Any:
        return self.get_attempt(self.attempts - 1) if self.attempts else None

    def get_attempt(self, number: int) -> Any:
        return SimpleNamespace(number=number, directory=Path("/" if number >= 0 else "/nonexistent"))

    async def log(self, attempt: Any, _selection: Any, *, follow: bool) -> AsyncIterator[bytes]:
        try:
            yield f"attempt {attempt.number}\n".encode()
            yield b"ready\n"
            self.is_read.set()
            if follow:
                await asyncio.Event().wait()
        finally:
            self.is_left.set()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("pki"))
    identities = (
        Identity("server", "server", (), ("localhost",)),
        Identity(API_SERVER, API_SERVER),
        Identity(STRANGER, STRANGER),
    )
    pki.ensure(made, identities, datetime.now(UTC))
    return made


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def bench(files: Pki) -> AsyncIterator[SimpleNamespace]:
    containers = {"engine": Container(2), "waiting": Container(0), "first": Container(1)}
    worker = SimpleNamespace(find_container=containers.get)
    port = _free_port()
    settings = ServerSettings(
        port, str(files.find_certificate("server")), str(files.find_key("server")), str(files.authority)
    )
    pods = {("ml-team", "gemma"): worker}
    server = await LogServer(settings, lambda *pod: cast("Any", pods.get(pod))).start()
    yield SimpleNamespace(port=port, containers=containers)
    server.close()


async def connect(files: Pki, port: int, client: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=str(files.authority))
    if client:
        context.load_cert_chain(files.find_certificate(client), files.find_key(client))
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")


async def answer(files: Pki, port: int, client: str, request: str) -> tuple[int, str]:
    reader, writer = await connect(files, port, client)
    writer.write(f"{request} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


@pytest.mark.parametrize(
    ("client", "request_line", "status", "body"),
    [
        pytest.param(API_SERVER, f"GET {LOG}", 200, "attempt 1\nready\n", id="the log of the last attempt"),
        pytest.param(
            API_SERVER, f"GET {LOG}?previous=true", 200, "attempt 0\nready\n", id="that of the one before"
        ),
        pytest.param("", "GET /healthz", 200, "ok", id="health is for everybody"),
        pytest.param("", f"GET {LOG}", 401, "a client certificate is required\n", id="without a certificate"),
        pytest.param(
            STRANGER,
            f"GET {LOG}",
            403,
            "only the API server can read logs here: use kubectl logs\n",
            id="with the certificate of another client",
        ),
        pytest.param(
            API_SERVER,
            "GET /containerLogs/ml-team/qwen/engine",
            404,
            'pod "qwen" in namespace "ml-team" is not on this node\n',
            id="a pod of another node",
        ),
        pytest.param(
            API_SERVER,
            "GET /containerLogs/ml-team/gemma/sidecar",
            404,
            'pod "gemma" has no container "sidecar"\n',
            id="a container that the pod does not have",
        ),
        pytest.param(
            API_SERVER,
            "GET /containerLogs/ml-team/gemma/waiting",
            400,
            'container "waiting" in pod "gemma" is waiting to start: ErrImagePull\n',
            id="a container without an attempt",
        ),
        pytest.param(
            API_SERVER,
            "GET /containerLogs/ml-team/gemma/first?previous=true",
            400,
            'previous terminated container "first" in pod "gemma" not found\n',
            id="no attempt before the last one",
        ),
        pytest.param(
            API_SERVER,
            f"GET {LOG}?tailLines=-1",
            400,
            "cannot read the options: tailLines is -1, and less than 0 of something cannot be had\n",
            id="an option that cannot be read",
        ),
        pytest.param(
            API_SERVER,
            f"POST {LOG}",
            404,
            "GET /containerLogs/NAMESPACE/POD/CONTAINER is the only path\n",
            id="another method",
        ),
    ],
)
async def test_an_answer(
    files: Pki, bench: SimpleNamespace, client: str, request_line: str, status: int, body: str
) -> None:
    assert await answer(files, bench.port, client, request_line) == (status, body)


async def test_a_log_is_followed_until_the_client_leaves(files: Pki, bench: SimpleNamespace) -> None:
    reader, writer = await connect(files, bench.port, API_SERVER)
    writer.write(f"GET {LOG}?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    read = await reader.readuntil(b"ready\n")
    assert b"Transfer-Encoding: chunked" in read
    container = bench.containers["engine"]
    assert not container.is_left.is_set()
    writer.close()
    await container.is_left.wait()


async def test_what_is_not_http_is_not_answered(files: Pki, bench: SimpleNamespace) -> None:
    reader, writer = await connect(files, bench.port, API_SERVER)
    writer.write(b"\x16\x03 nonsense\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
