"""A registry on loopback, by the OCI distribution specification: uploads, manifests, accounts, and faults.

It checks what a registry checks: sessions of uploads, digests, and that a manifest names only blobs that are
there.
"""

import base64
import hashlib
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PATH = re.compile(r"/v2/(?P<name>[a-z0-9/._-]+?)/(?P<what>blobs|manifests)/(?P<rest>.+)")


@dataclass
class Registry:
    """What the registry has, what it was asked, and how it behaves."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Each request: its method and path, without the names of sessions."""
    authorizations: set[str] = field(default_factory=set)
    account: tuple[str, str] | None = None
    """Who may push; everybody, if there is none."""
    scheme: str = ""
    """``Basic`` or ``Bearer``."""
    realm: str = ""
    """Where tokens are, if it is not this server."""
    token: str = "t0ken-of-the-registry"
    lasts: int = 10**6
    """Requests that a token is accepted for."""
    used: int = 0
    faults: dict[str, list[int]] = field(default_factory=dict)
    """Statuses of the next requests, by the method and a part of the path; 0 cuts the upload."""
    uploads_to: str = ""
    """Where the content of uploads is sent, if it is not this server."""
    message: str = "said"
    swaps: bool = False
    """Whether it stores another manifest than the one that it got."""
    address: str = ""
    url: str = ""


@contextmanager
def serve(context: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """Run a registry."""
    registry = Registry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.address = f"127.0.0.1:{server.server_port}"
    registry.url = f"{'https' if context else 'http'}://{registry.address}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        registry, url = self.registry, urlsplit(self.path)
        registry.asked.append(f"{self.command} {re.sub('/uploads/.+', '/uploads/ID', url.path)}")
        if given := self.headers.get("Authorization"):
            registry.authorizations.add(given)
        fault = self._fault(url.path)
        if fault == 0:
            self.rfile.read(int(self.headers["Content-Length"]) // 2)
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault is not None:
            self._refuse(fault)
        elif url.path == "/token":
            self._token(parse_qs(url.query))
        elif not self._is_let_in():
            self._refuse(401, {"WWW-Authenticate": self._challenge()})
        elif (found := _PATH.fullmatch(url.path)) is None:
            self._refuse(404)
        elif found["what"] == "manifests":
            self._manifest(found["rest"], body)
        elif found["rest"].startswith("uploads/"):
            self._upload(found["name"], url.query, body)
        else:
            content = registry.blobs.get(found["rest"])
            self._send(404 if content is None else 200, content or b"")

    def _fault(self, path: str) -> int | None:
        for key, statuses in self.registry.faults.items():
            method, _, part = key.partition(" ")
            if statuses and method == self.command and part in path:
                return statuses.pop(0)
        return None

    def _is_let_in(self) -> bool:
        registry, given = self.registry, self.headers.get("Authorization", "")
        if registry.account is None:
            return True
        if registry.scheme == "Basic":
            return given == self._basic()
        registry.used += 1
        return given == f"Bearer {registry.token}" and registry.used <= registry.lasts

    def _basic(self) -> str:
        assert self.registry.account
        return f"Basic {base64.b64encode(':'.join(self.registry.account).encode()).decode()}"

    def _challenge(self) -> str:
        registry = self.registry
        if registry.scheme == "Basic":
            return 'Basic realm="registry"'
        return f'Bearer realm="{registry.realm or registry.url}/token",service="registry"'

    def _token(self, query: dict[str, list[str]]) -> None:
        if self.headers.get("Authorization") != self._basic() or not query["scope"][0].endswith(":pull,push"):
            self._refuse(401)
        else:
            self.registry.used = 0
            self._send(200, json.dumps({"token": self.registry.token}).encode())

    def _manifest(self, reference: str, body: bytes) -> None:
        registry = self.registry
        if self.command == "PUT":
            document = json.loads(body)
            named = [*document.get("layers", ()), *([document["config"]] if "config" in document else ())]
            missing = [each for each in named if each["digest"] not in registry.blobs]
            missing += [
                each for each in document.get("manifests", ()) if each["digest"] not in registry.manifests
            ]
            if missing:
                self._refuse(400)
                return
            stored = body + b" " if registry.swaps else body
            registry.manifests[reference] = (self.headers["Content-Type"], stored)
            self._send(201, b"", {"Docker-Content-Digest": digest_of(body)})
            return
        media_type, content = registry.manifests.get(reference, ("", b""))
        self._send(200 if content else 404, content, {"Content-Type": media_type} if content else None)

    def _upload(self, name: str, query: str, body: bytes) -> None:
        registry = self.registry
        if self.command == "POST":
            where = f"/v2/{name}/blobs/uploads/session?_state=s%3D1"
            self._send(202, b"", {"Location": f"{registry.uploads_to}{where}"})
            return
        asked = parse_qs(query)
        if asked.get("_state") != ["s=1"] or asked.get("digest") != [digest_of(body)]:
            self._refuse(400)
            return
        registry.blobs[digest_of(body)] = body
        self._send(201)

    def _refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"errors": [{"code": "CODE", "message": self.registry.message}]}).encode()
        self._send(status, body, headers)

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
