"""S3 on loopback: moto's server, which checks signatures, behind faults."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@dataclass
class BucketServer:
    """The server, and how its next answers for an object go wrong."""

    url: str = ""
    faults: deque[Callable[[bytes], bytes] | str] = field(default_factory=deque)
    """A status, or the change of a body."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The path, and the range, of each request for an object."""

    @property
    def client(self) -> Any:
        """A client of the maker of S3."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serve() -> Iterator[BucketServer]:
    """Run a server."""
    state = BucketServer()
    moto = DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        is_object = environ["REQUEST_METHOD"] == "GET" and path.count("/") > 1
        if not is_object:
            result: Iterable[bytes] = moto(environ, start)
            return result
        state.asked.append((path, environ.get("HTTP_RANGE", "")))
        fault = state.faults.popleft() if state.faults else None
        if isinstance(fault, str):
            start(fault, [("Content-Length", "0"), ("Retry-After", "0")])
            return []
        body = b"".join(moto(environ, start))
        return [fault(body) if fault else body]

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=_Quiet)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
