"""A server on this machine that exchanges signed assertions for tokens, and answers as it is told to."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class TokenServer:
    """What a cloud's token server is asked, and what it answers."""

    address: str = ""
    status: int = 200
    answer: Any = field(default_factory=dict)

    def take(self, body: str) -> None:
        """Check what was sent; the cloud's own server says how."""
        raise NotImplementedError

    @contextmanager
    def serving(self, path: str) -> Iterator[None]:
        """Serve every POST, and tell the address with a path."""
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told.take(self.rfile.read(int(self.headers["Content-Length"])).decode())
                content = told.answer if isinstance(told.answer, bytes) else json.dumps(told.answer).encode()
                self.send_response(told.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            self.address = f"http://127.0.0.1:{http.server_address[1]}{path}"
            thread = Thread(target=http.serve_forever, daemon=True)
            thread.start()
            yield
            http.shutdown()
            thread.join()
