"""The server of external metrics, with clients that take places and send nothing, or little at a time."""

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from modelplane.controllers import external_metrics_server
from modelplane.deciders.autoscaling.external_metrics import Answer
from modelplane.local.kubernetes import pki
from modelplane.local.kubernetes.control_plane import Pki
from support.patience import PATIENCE_S

SERVING, CLIENT = "metrics", "front-proxy"
IDENTITIES = (
    pki.Identity(SERVING, "metrics", (), ("localhost",)),
    pki.Identity(CLIENT, "front-proxy-client"),
)
PLACES = 16


class Metrics:
    def answer(self, target: str) -> Answer:
        return 200, {"target": target}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder: Path = tmp_path_factory.mktemp("pki")
    found = Pki(folder)
    pki.ensure(found, IDENTITIES, pki.get_now())
    return found


@pytest.fixture
async def server(files: Pki) -> AsyncIterator[external_metrics_server.Server]:
    context = external_metrics_server.context(
        files.find_certificate(SERVING), files.find_key(SERVING), files.authority
    )
    metrics: Any = Metrics()
    with external_metrics_server.Server(("127.0.0.1", 0), context, metrics, frozenset()) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()


def ask(files: Pki, port: int) -> Any:
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(files.find_certificate(CLIENT), files.find_key(CLIENT))
    connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("GET", "/apis")
        return json.load(connection.getresponse())
    finally:
        connection.close()


def ask_until_answered(files: Pki, port: int) -> Any:
    """Ask until there is a place again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask(files, port)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def dripping(port: int, ended: threading.Event) -> Iterator[threading.Thread]:
    """Send a byte of a handshake at a time, on as many connections as there are places."""

    def drip(connection: socket.socket) -> None:
        # The head of a record of TLS that is longer than what follows.
        piece = iter(b"\x16\x03\x01\x3f\xff")
        with connection, contextlib.suppress(OSError):
            while not ended.wait(0.05):
                connection.sendall(bytes([next(piece, 0)]))

    for _ in range(PLACES):
        connection = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        yield threading.Thread(target=drip, args=(connection,), daemon=True)


async def test_clients_that_send_nothing_give_their_places_back(
    files: Pki, server: external_metrics_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_metrics_server, "_SILENCE_S", 2.0)
    port = server.server_address[1]
    silent = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(PLACES)]
    with pytest.raises(OSError):  # noqa: PT011 - refused, reset, or ended in the handshake
        await asyncio.to_thread(ask, files, port)
    assert await asyncio.to_thread(ask_until_answered, files, port) == {"target": "/apis"}
    for each in silent:
        each.close()


async def test_clients_that_send_little_at_a_time_give_their_places_back(
    files: Pki, server: external_metrics_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_metrics_server, "_SILENCE_S", 2.0)
    port, ended = server.server_address[1], threading.Event()
    threads = list(dripping(port, ended))
    for each in threads:
        each.start()
    try:
        with pytest.raises(OSError):  # noqa: PT011 - refused, reset, or ended in the handshake
            await asyncio.to_thread(ask, files, port)
        assert await asyncio.to_thread(ask_until_answered, files, port) == {"target": "/apis"}
    finally:
        ended.set()
        for each in threads:
            each.join(PATIENCE_S)


async def test_a_thread_that_cannot_be_started_keeps_no_place(
    files: Pki, server: external_metrics_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    port = server.server_address[1]
    with monkeypatch.context() as patch:
        patch.setattr(ThreadingHTTPServer, "process_request", refused)
        for _ in range(2 * PLACES):
            with pytest.raises(OSError):  # noqa: PT011 - reset, or ended in the handshake
                await asyncio.to_thread(ask, files, port)
    assert await asyncio.to_thread(ask, files, port) == {"target": "/apis"}
