"""An outside provider of the OpenAI API on loopback: it answers those who call it by its own name only."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.patience import PATIENCE_S

PIECES = ("Paris", " is", " the", " capital")


@dataclass(slots=True)
class Provider:
    """What is known of a provider that runs."""

    name: str
    """The host name that it has to be called by."""
    model: str
    port: int = 0
    targets: list[str] = field(default_factory=list)
    """The path and query of each request that was answered."""
    keys: set[str] = field(default_factory=set)
    """What came as Authorization."""
    models: set[str] = field(default_factory=set)
    """What was asked for as the model."""
    begun: threading.Event = field(default_factory=threading.Event)
    """Set when the first piece of a stream is out."""
    go_on: threading.Event = field(default_factory=threading.Event)
    """A stream waits for it after its first piece."""

    @property
    def authority(self) -> str:
        return f"{self.name}:{self.port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, provider: Provider) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider
        provider.port = self.server_address[1]
        self._connections: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def hang_up(self) -> None:
        """Close every connection, also those that wait for another request."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Say nothing: a connection that a client closed is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        provider = self.server.provider
        if self._called_right():
            self._answer(200, {"object": "list", "data": [{"id": provider.model, "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._called_right() and body["stream"]:
            self.server.provider.models.add(body["model"])
            self._stream()

    def _called_right(self) -> bool:
        provider = self.server.provider
        if self.headers["Host"] != provider.authority:
            self._answer(421, {"error": {"message": f"there is no {self.headers['Host']} here"}})
            return False
        provider.targets.append(self.path)
        provider.keys.add(self.headers.get("Authorization", ""))
        return True

    def _answer(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self) -> None:
        provider = self.server.provider
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number, piece in enumerate(PIECES):
            if number:
                provider.begun.set()
                provider.go_on.wait(PATIENCE_S)
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            chunk = {
                "id": "1",
                "object": "chat.completion.chunk",
                "model": provider.model,
                "choices": [choice],
            }
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(name: str, model: str, tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    """Run a provider on a port of its own."""
    provider = Provider(name, model)
    provider.go_on.set()
    with _Server(provider) as server:
        if tls is not None:
            tls.sni_callback = lambda _socket, asked, _context: (
                None if asked == name else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
            )
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield provider
        finally:
            provider.go_on.set()
            server.shutdown()
            thread.join()
            server.hang_up()
