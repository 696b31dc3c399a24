"""A web server of files on loopback that can be told to fail: truncated, corrupted, slow, overloaded.

It answers GET and HEAD, ranges included. A path has a queue of faults, and each request takes the next one.
"""

import base64
import hashlib
import json
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Fault:
    """How the next answer goes wrong."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int = -1
    """Bytes of the body after which the connection ends."""
    flipped: bool = False
    """Whether a byte is another one."""
    stalls: bool = False
    """Whether nothing comes after that, and the connection stays."""
    trickles: bool = False
    """Whether the rest comes byte by byte."""
    whole: bool = False
    """Whether the range is ignored."""


OVERLOADED = Fault(429, {"Retry-After": "0"})


@dataclass(frozen=True)
class Asked:
    """One request."""

    host: str
    path: str
    range: str
    authorization: str


@dataclass
class WeightsServer:
    """What the server has, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    faults: defaultdict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    asked: list[Asked] = field(default_factory=list)
    token: str = ""
    """The one that every request must have; none if the file is empty."""
    realm: str = ""
    """Where the token is had for the account, as a registry says it."""
    account: str = ""
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def add(self, path: str, content: bytes, type_: str = "application/octet-stream") -> str:
        """Serve a file, and return its address."""
        self.files[path], self.types[path] = content, type_
        return f"{self.url}{path}"

    def push(self, repository: str, layers: list[tuple[str, str, bytes]], tag: str = "v1") -> str:
        """Serve an artifact, given each layer's type, title and content, and return its digest."""
        described = []
        for type_, title, content in layers:
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            self.add(f"/v2/{repository}/blobs/{digest}", content)
            notes = {"annotations": {"org.opencontainers.image.title": title}} if title else {}
            described.append({"mediaType": type_, "digest": digest, "size": len(content), **notes})
        kind = "application/vnd.oci.image.manifest.v1+json"
        body = json.dumps({"schemaVersion": 2, "mediaType": kind, "layers": described}).encode()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        for version in (tag, digest):
            self.add(f"/v2/{repository}/manifests/{version}", body, kind)
        return digest


@contextmanager
def serve(host: str = "127.0.0.1") -> Iterator[WeightsServer]:
    """Run a server."""
    state = WeightsServer()
    server = _Server((host, 0), type("Handler", (_Handler,), {"state": state}))
    state.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing: a client may go in the middle."""


class _Handler(BaseHTTPRequestHandler):
    state: WeightsServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        state, path = self.state, urlsplit(self.path).path
        given = self.headers.get("Authorization", "")
        state.asked.append(Asked(self.headers["Host"], self.path, self.headers.get("Range", ""), given))
        queue = state.faults[path]
        fault = queue.popleft() if queue else Fault()
        if fault.status:
            self._send(fault.status, b"", fault.headers)
        elif path == "/token":
            basic = base64.b64encode(state.account.encode()).decode()
            scope = parse_qs(urlsplit(self.path).query).get("scope")
            known = given == f"Basic {basic}" and scope
            self._send(200 if known else 401, json.dumps({"token": state.token}).encode())
        elif state.token and given != f"Bearer {state.token}":
            asks = {"WWW-Authenticate": f'Bearer realm="{state.realm}",service="here"'} if state.realm else {}
            self._send(401, b"", asks)
        elif self.path in state.files:
            self._content(state.files[self.path], state.types[self.path], fault)
        elif path in state.files:
            self._content(state.files[path], state.types[path], fault)
        else:
            self._send(404, b"")

    def _content(self, content: bytes, type_: str, fault: Fault) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and not fault.whole else 0
        if asked and start >= len(content):
            self._send(416, b"")
            return
        headers = {"Content-Type": type_}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        if fault.flipped:
            body = bytes([body[0] ^ 1]) + body[1:]
        self._send(206 if start else 200, body, headers, fault)

    def _send(
        self, code: int, body: bytes, headers: Mapping[str, str] | None = None, fault: Fault | None = None
    ) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = fault.cut_after if fault else -1
        self.wfile.write(body if cut < 0 else body[:cut])
        if fault and fault.trickles:
            for byte in body[cut:]:
                self.wfile.write(bytes([byte]))
                self.state.closing.wait(0.02)
        if fault and fault.stalls:
            while not self.state.closing.wait(0.05):
                time.sleep(0)
        self.close_connection = cut >= 0
