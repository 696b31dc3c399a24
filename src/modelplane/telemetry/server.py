"""Health and metrics over HTTP, for kubelets and Prometheus, and calls to the event loop from its threads.

Clients never delay the reconciles. Each request has one of a few threads; slow clients are disconnected, and
connections beyond the number of threads are closed.

``/healthz`` is liveness and ``/readyz`` readiness; both answer 200, or 503 with a sentence. ``/metrics`` is
in the text format of Prometheus. There is no authentication: every client that can reach the address can
read the names of clusters and deployments.

The controllers' state belongs to their event loop and is read there; HTTP is served by other threads.
"""

import asyncio
import concurrent.futures
import gzip
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from modelplane.user_error import UserError

_log = logging.getLogger(__name__)

T = TypeVar("T")

_PATIENCE_S = 5.0
"""Time limit of a call. A loop that is busy for longer is stuck: no step of a reconcile takes as long."""

_AT_ONCE = 8
_SILENCE_S = 5.0
"""Time limit for each read and write of a client."""
_LONGEST_S = 15.0
"""Time limit from the first byte of a request to the last of its answer."""
_POLL_S = 0.25
_TEXT = "text/plain; charset=utf-8"


class Unanswered(Exception):
    """An event loop did not answer; the message is a sentence."""


def route_to_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[[], T], patience_s: float = _PATIENCE_S
) -> Callable[[], T]:
    """Return a function, to be called from any other thread, that calls one on the loop.

    It raises what the function raises, and ``Unanswered``.
    """

    def ask() -> T:
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(function())
            except Exception as error:  # noqa: BLE001 - it is the asker's
                answer.set_exception(error)

        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            raise Unanswered("the event loop has ended") from None
        try:
            return answer.result(patience_s)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            raise Unanswered(f"the event loop has not answered for {patience_s:g} s") from None

    return ask


def watch_loop(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Return a check that an event loop still runs."""
    return route_to_loop(loop, lambda: None)


Check = Callable[[], str | None]
"""Returns as a sentence what is wrong, or None; called in any thread."""


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes
    encoding: str = ""


class Server:
    """Answers until it is closed, in threads of its own."""

    def __init__(self, listener: "_Listener") -> None:
        self._listener = listener
        self.address = f"{listener.shown_host}:{listener.server_address[1]}"
        """Its address, with the actual port if any was allowed."""
        thread = threading.Thread(
            target=listener.serve_forever, args=(_POLL_S,), name="health and metrics", daemon=True
        )
        thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering."""
        self._listener.shutdown()
        self._listener.server_close()


def serve(
    address: str, *, alive: Check, ready: Check, registry: CollectorRegistry, longest_s: float = _LONGEST_S
) -> Server:
    """Answer at ``HOST:PORT`` from now on, each request within ``longest_s``; port 0 is any that is free.

    Raises ``UserError``.
    """
    host, port = _parsed(address)
    pages = {
        "/healthz": lambda _: _checked(alive),
        "/readyz": lambda _: _checked(ready),
        "/metrics": lambda headers: _metrics(registry, headers),
    }
    try:
        listener = _Listener(host, port, pages, longest_s)
    except (OSError, UnicodeError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f'cannot serve health and metrics at "{address}": {cause}: '
            "choose another address, or stop what uses this one"
        ) from error
    server = Server(listener)
    _log.info("health and metrics at http://%s", server.address)
    return server


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise UserError(
            f'"{address}" is not an address for health and metrics: use HOST:PORT, such as '
            "127.0.0.1:8080, or 0.0.0.0:8080 for every network"
        )
    return host, int(port)


def _checked(check: Check) -> _Answer:
    try:
        problem = check()
    except Unanswered as unanswered:
        problem = str(unanswered)
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return _Answer(status, _TEXT, f"{problem or 'ok'}\n".encode())


def _metrics(registry: CollectorRegistry, headers: Message) -> _Answer:
    encode, content_type = choose_encoder(headers.get("Accept", ""))
    try:
        body = encode(registry)
    except Unanswered as unanswered:
        return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{unanswered}\n".encode())
    if "gzip" in headers.get("Accept-Encoding", ""):
        return _Answer(HTTPStatus.OK, content_type, gzip.compress(body, compresslevel=1), "gzip")
    return _Answer(HTTPStatus.OK, content_type, body)


_Page = Callable[[Message], _Answer]


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = _AT_ONCE

    def __init__(self, host: str, port: int, pages: Mapping[str, _Page], longest_s: float) -> None:
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self.shown_host = f"[{host}]" if ":" in host else host
        self.pages = pages
        self._longest_s = longest_s
        self._began: dict[socket.socket, float] = {}
        super().__init__((host, port), _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - socketserver's
        """Refuse a connection if all threads are busy."""
        if len(self._began) >= _AT_ONCE:
            return False
        self._began[request] = time.monotonic()
        return True

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        super().shutdown_request(request)
        self._began.pop(request, None)

    def service_actions(self) -> None:
        """Disconnect clients that take too long."""
        now = time.monotonic()
        for request, began in self._began.copy().items():
            if now - began > self._longest_s:
                self._cut_off(request)

    @staticmethod
    def _cut_off(request: socket.socket) -> None:
        try:
            request.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("a client has gone by itself")

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's
        """Log an error."""
        _log.debug("cannot answer %s", client_address[0], exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    timeout = _SILENCE_S
    server_version = "modelplane"
    sys_version = ""
    error_content_type = _TEXT
    error_message_format = "%(message)s\n"

    def do_GET(self) -> None:
        """Answer one request."""
        page = self.server.pages.get(urlsplit(self.path).path)
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND, f"there is nothing but {', '.join(self.server.pages)}")
            return
        try:
            answer = page(self.headers)
        except Exception:  # noqa: BLE001 - the client gets an error, and the server goes on
            _log.exception("cannot answer %s: a bug", self.path)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug, which the log has")
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.encoding:
            self.send_header("Content-Encoding", answer.encoding)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log no request: kubelets and Prometheus ask all the time."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        """Log a faulty request, at debug level."""
        _log.debug(format, *args)
