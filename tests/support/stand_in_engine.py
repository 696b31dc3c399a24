"""A program in an engine's place: it answers chat completions after a time, and some with an error.

It is run by its path, with no module of the project.
"""

import argparse
import json
import random
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("The", " capital", " is", " Paris")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    settings: argparse.Namespace

    def do_GET(self) -> None:
        self._send(200, {"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        time.sleep(self.settings.delay)
        if random.random() < self.settings.errors:  # noqa: S311 - which requests fail is no secret
            self._send(500, {"error": {"message": "the stand-in fails"}})
        elif body.get("stream"):
            self._stream()
        else:
            self._send(200, self._chat(message={"role": "assistant", "content": "".join(WORDS)}))

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for word in WORDS:
            self._event(json.dumps(self._chat(delta={"content": word}, ended=None)))
            time.sleep(self.settings.pause)
        self._event(json.dumps(self._chat(delta={})))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.flush()

    def _chat(self, ended: str | None = "stop", **choice: Any) -> dict[str, Any]:
        kind = "chat.completion.chunk" if "delta" in choice else "chat.completion"
        choices = [{"index": 0, "finish_reason": ended, **choice}]
        return {"id": "c", "object": kind, "created": 1, "model": self.settings.name, "choices": choices}

    def _send(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # what is being answered ends before the process does
    request_queue_size = 128


def main() -> None:
    """Serve until a signal, and end the requests in progress."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--name", default="stand-in")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--errors", type=float, default=0.0)
    _Handler.settings = parser.parse_args()
    server = _Server((_Handler.settings.host, _Handler.settings.port), _Handler)
    # From another thread, because shutdown waits for the loop that the signal interrupts.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
