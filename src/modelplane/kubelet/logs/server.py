"""The server behind ``kubectl logs``: ``GET /containerLogs/NAMESPACE/POD/CONTAINER`` over TLS.

Only the API server's kubelet client may read logs. The API server decides by RBAC which user may read the
logs of which pod.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aiohttp import web

from modelplane.kube import timestamps
from modelplane.kubelet import node
from modelplane.kubelet.logs.log_files import Selection
from modelplane.kubelet.pods.container_worker import ContainerWorker
from modelplane.kubelet.pods.views import Waiting
from modelplane.kubelet.pods.worker import PodWorker
from modelplane.kubelet.records import Attempt
from modelplane.kubelet.runtime.shim import format_timestamp

API_SERVER = "kube-apiserver-kubelet-client"
"""The common name of the certificate that the API server shows to kubelets."""

_SHUTDOWN_S = 1.0

Find = Callable[[str, str], PodWorker | None]
"""Returns the worker of a pod, given its namespace and name."""


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

    async def start(self) -> web.AppRunner:
        """Listen; ``cleanup`` of the returned runner stops it."""
        application = web.Application(middlewares=[_only_the_api_server])
        application.router.add_get("/healthz", _healthz)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        # Otherwise a silent log would be followed until the engine ends, even after the client has left.
        runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=_SHUTDOWN_S, handler_cancellation=True
        )
        await runner.setup()
        await web.TCPSite(runner, node.ADDRESS, self._settings.port, ssl_context=self._tls()).start()
        return runner

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self._settings.client_authority)
        context.load_cert_chain(self._settings.certificate, self._settings.key)
        # Optional here, so that an unauthenticated client gets 401 instead of a closed connection.
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        namespace, pod, container = (request.match_info[key] for key in ("namespace", "pod", "container"))
        worker = self._find(namespace, pod)
        if worker is None:
            raise web.HTTPNotFound(text=f'pod "{pod}" in namespace "{namespace}" is not on this node\n')
        container_worker = worker.find_container(container)
        if container_worker is None:
            raise web.HTTPNotFound(text=f'pod "{pod}" has no container "{container}"\n')
        try:
            selection = parse_selection(request.query, datetime.now(UTC))
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"cannot read the options: {error}\n") from error
        attempt = self._attempt(container_worker, pod, container, _is_true(request.query, "previous"))
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        parts = container_worker.log(attempt, selection, follow=_is_true(request.query, "follow"))
        # Stop reading the log when the client disconnects.
        async with aclosing(parts):
            async for data in parts:
                await response.write(data)
        await response.write_eof()
        return response

    def _attempt(self, worker: ContainerWorker, pod: str, container: str, previous: bool) -> Attempt:
        attempt = worker.directory.find_latest()
        if attempt is None:
            state = worker.view.state
            reason = state.reason if isinstance(state, Waiting) else "no attempt is recorded"
            raise web.HTTPBadRequest(
                text=f'container "{container}" in pod "{pod}" is waiting to start: {reason}\n'
            )
        if not previous:
            return attempt
        before = worker.directory.get_attempt(attempt.number - 1)
        if not before.directory.is_dir():
            raise web.HTTPBadRequest(
                text=f'previous terminated container "{container}" in pod "{pod}" not found\n'
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


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


@web.middleware
async def _only_the_api_server(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if request.path == "/healthz":
        return await handler(request)
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    if not certificate:
        raise web.HTTPUnauthorized(text="a client certificate is needed\n")
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    if names != [API_SERVER]:
        raise web.HTTPForbidden(text="only the API server may read logs here: use kubectl logs\n")
    return await handler(request)
