"""The server behind ``kubectl logs``: ``GET /containerLogs/NAMESPACE/POD/CONTAINER`` over TLS.

Only the API server's kubelet client may read logs. The API server decides by RBAC which user may read the
logs of which pod. A connection carries one request. With a web framework, the agent would take 10 MiB more.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from modelplane.kube import timestamps
from modelplane.kubelet import node
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.pods.container_worker import ContainerWorker
from modelplane.kubelet.pods.pods import PodWorker
from modelplane.kubelet.pods.views import Waiting
from modelplane.kubelet.records import Attempt
from modelplane.kubelet.runtime.shim import format_timestamp

API_SERVER = "kube-apiserver-kubelet-client"
"""The common name of the certificate that the API server shows to kubelets."""

_REQUEST_S = 10.0
_READ_BYTES = 16384
_LOGS = "containerLogs"

Find = Callable[[str, str], PodWorker | None]
"""Returns the worker of a pod, given its namespace and name."""


class _Failure(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server's port and certificates; the paths are PEM files."""

    port: int
    certificate: str
    key: str
    client_authority: str
    """Certificate authority of the clients."""


class LogServer:
    """Serves the logs of the pods of this machine."""

    def __init__(self, settings: ServerSettings, find: Find) -> None:
        self._settings = settings
        self._find = find

    async def start(self) -> asyncio.Server:
        """Listen until the returned server is closed."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self._settings.client_authority)
        context.load_cert_chain(self._settings.certificate, self._settings.key)
        # Optional here, so that an unauthenticated client gets 401 instead of a closed connection.
        context.verify_mode = ssl.CERT_OPTIONAL
        return await asyncio.start_server(
            self._serve, node.ADDRESS, self._settings.port, ssl=context, ssl_handshake_timeout=_REQUEST_S
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(h11.Connection(h11.SERVER), reader, writer)
        except (OSError, TimeoutError, h11.RemoteProtocolError):
            pass  # of the client, which is gone or does not speak HTTP
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(_REQUEST_S):
            while not isinstance(request := connection.next_event(), h11.Request):
                if request is not h11.NEED_DATA:
                    raise h11.RemoteProtocolError("the client sends no request")
                connection.receive_data(await reader.read(_READ_BYTES))
        try:
            parts = self._open(request, writer.get_extra_info("peercert"))
        except _Failure as failure:
            status, parts = failure.status, _yield_once(str(failure).encode())
        else:
            status = HTTPStatus.OK
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")]
        writer.write(connection.send(h11.Response(status_code=status, headers=headers)) or b"")
        sending = asyncio.create_task(_send(connection, writer, parts))
        # Otherwise a silent log would be followed until the engine ends, even after the client has left.
        leaving = asyncio.create_task(_wait_until_closed(reader))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    def _open(
        self, request: h11.Request, certificate: Mapping[str, object] | None
    ) -> AsyncGenerator[bytes, None]:
        """Return the parts of an answer; raise ``_Failure`` for an error."""
        target = urlsplit(request.target.decode("ascii"))
        if target.path == "/healthz":
            return _yield_once(b"ok")
        _check_client(certificate)
        first, *names = [unquote(part) for part in target.path.removeprefix("/").split("/")]
        if request.method != b"GET" or first != _LOGS or len(names) != 3:
            raise _Failure(HTTPStatus.NOT_FOUND, f"GET /{_LOGS}/NAMESPACE/POD/CONTAINER is the only path\n")
        namespace, pod, container = names
        worker = self._find(namespace, pod)
        if worker is None:
            raise _Failure(
                HTTPStatus.NOT_FOUND, f'pod "{pod}" in namespace "{namespace}" is not on this node\n'
            )
        container_worker = worker.find_container(container)
        if container_worker is None:
            raise _Failure(HTTPStatus.NOT_FOUND, f'pod "{pod}" has no container "{container}"\n')
        query = dict(parse_qsl(target.query))
        try:
            selection = parse_selection(query, datetime.now(UTC))
        except ValueError as error:
            raise _Failure(HTTPStatus.BAD_REQUEST, f"cannot read the options: {error}\n") from error
        attempt = _find_attempt(container_worker, pod, container, previous=_is_true(query, "previous"))
        return container_worker.log(attempt, selection, follow=_is_true(query, "follow"))


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, parts: AsyncGenerator[bytes, None]
) -> None:
    # Stop reading the log when the client disconnects.
    async with aclosing(parts):
        async for part in parts:
            writer.write(connection.send(h11.Data(part)) or b"")
            await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()


async def _wait_until_closed(reader: asyncio.StreamReader) -> None:
    while await reader.read(_READ_BYTES):
        pass


async def _yield_once(text: bytes) -> AsyncGenerator[bytes, None]:
    yield text


def _check_client(certificate: Mapping[str, object] | None) -> None:
    if not certificate:
        raise _Failure(HTTPStatus.UNAUTHORIZED, "a client certificate is required\n")
    subject = cast("Iterable[Iterable[tuple[str, str]]]", certificate.get("subject", ()))
    names = [value for part in subject for key, value in part if key == "commonName"]
    if names != [API_SERVER]:
        raise _Failure(HTTPStatus.FORBIDDEN, "only the API server can read logs here: use kubectl logs\n")


def _find_attempt(worker: ContainerWorker, pod: str, container: str, *, previous: bool) -> Attempt:
    attempt = worker.directory.find_latest()
    if attempt is None:
        state = worker.view.state
        reason = state.reason if isinstance(state, Waiting) else "no attempt is recorded"
        raise _Failure(
            HTTPStatus.BAD_REQUEST,
            f'container "{container}" in pod "{pod}" is waiting to start: {reason}\n',
        )
    if not previous:
        return attempt
    before = worker.directory.get_attempt(attempt.number - 1)
    if not before.directory.is_dir():
        raise _Failure(
            HTTPStatus.BAD_REQUEST,
            f'previous terminated container "{container}" in pod "{pod}" not found\n',
        )
    return before


def parse_selection(query: Mapping[str, str], now: datetime) -> Selection:
    """Return the selection of a request; raise ``ValueError`` for an invalid option."""
    since = ""
    if "sinceTime" in query:
        since = _stamp(timestamps.parse(query["sinceTime"]))
    elif "sinceSeconds" in query:
        since = _stamp(now - timedelta(seconds=int(query["sinceSeconds"])))
    return Selection(
        tail_lines=_count(query, "tailLines"),
        since=since,
        limit_bytes=_count(query, "limitBytes"),
        timestamps=_is_true(query, "timestamps"),
    )


def _stamp(moment: datetime) -> str:
    return format_timestamp(int(moment.timestamp() * 1_000_000) * 1000)


def _count(query: Mapping[str, str], name: str) -> int | None:
    if name not in query:
        return None
    value = int(query[name])
    if value < 0:
        raise ValueError(f"{name} is {value}, and less than 0 of something cannot be had")
    return value


def _is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"true", "1"}
