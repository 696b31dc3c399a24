"""External metrics: the gateway's counts of each deployment, served to the API server's aggregation layer.

The API server has authenticated and authorized a request before it passes it on. So the only client is the
API server, by a certificate of the authority for its requests to extensions (Kubernetes, "Configure the
Aggregation Layer").
"""

import asyncio
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from modelplane.api.meta import kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.compose.service.selecting_services import SelectingServices, TooMany
from modelplane.controllers.decision_loops.deployment_load import DeploymentLoad
from modelplane.controllers.fleet_resources import resource_of_kind
from modelplane.controllers.runnable import Runnable, run_all
from modelplane.deciders.autoscaling import external_metrics
from modelplane.deciders.autoscaling.evidence import Sample
from modelplane.gateway.usage.load import Load
from modelplane.kube import errors, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.gateway_metrics import Source
from modelplane.telemetry.server import Unanswered, route_to_loop

_log = logging.getLogger(__name__)

_EVERY_S = 2.0
_OLDEST_S = 15.0
"""Counts that are older are none."""
_SILENCE_S = 5.0
"""Longest silence of a client, and longest handshake: others than the API server get no further."""
_AT_ONCE = 16


class ExternalMetrics(Runnable):
    """The present counts of every deployment."""

    name = "external metrics"

    def __init__(self, client: Client, source: Source) -> None:
        self._source = source
        self._informers = {
            kind_name(type_): Informer(client, resource_of_kind(type_))
            for type_ in (ModelDeployment, ModelEndpoint, ModelService)
        }
        self._load = Load(problem="the gateway's counts are still being read")
        self._read = 0.0
        self._indexes: dict[str, SelectingServices] = {}

    async def serve(self) -> None:
        """Read counts until cancelled."""
        await run_all([self], [*self._informers.values(), *self._source.informers])

    async def run(self) -> None:
        """Read counts every two seconds, until cancelled."""
        while True:
            try:
                self._load = await self._source.load()
            except (errors.KubernetesError, OSError) as error:
                self._load = Load(problem=str(error))
            self._read = time.monotonic()
            await asyncio.sleep(_EVERY_S)

    def answer(self, target: str) -> external_metrics.Answer:
        """Return the status and the body for a path with a query."""
        return external_metrics.answer(target, self._samples, timestamps.format_now())

    def _samples(self, namespace: str, name: str) -> Iterator[tuple[str, Sample | None]]:
        now = time.monotonic()
        load = self._load if now - self._read < _OLDEST_S else Load()
        counted = DeploymentLoad(self._informers, load, load, self._indexes)
        for item in self._deployments(namespace, name):
            sample = counted.sample(item, now)
            yield item["metadata"]["name"], None if isinstance(sample, TooMany) else sample
        self._indexes |= counted.indexes

    def _deployments(self, namespace: str, name: str) -> tuple[Object, ...]:
        """Return a deployment by its name, or those of a namespace."""
        known = self._informers[kind_name(ModelDeployment)]
        if not name:
            return known.in_namespace(namespace)
        named = known.get(name, namespace)
        return () if named is None else (named,)


class Server(ThreadingHTTPServer):
    """HTTPS for the API server alone; a few connections at a time, each for one request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        metrics: ExternalMetrics,
        names: frozenset[str],
    ) -> None:
        """``names`` are the common names of certificates that may ask; empty allows all of the authority."""
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.metrics, self.names = metrics, names
        self.loop = asyncio.get_running_loop()
        self.context = context
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - socketserver's
        """Refuse a connection if all threads are busy."""
        return self._room.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, or give its place back."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no more threads
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, in a thread that also does the handshake."""
        try:
            request.settimeout(_SILENCE_S)
            with self.context.wrap_socket(request, server_side=True) as secured:
                self.finish_request(secured, client_address)
        except OSError as error:
            _log.debug("cannot answer %s: %s", client_address[0], error)
        finally:
            self._room.release()
            self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _SILENCE_S
    server_version = "modelplane"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one request."""
        status, body = (
            403,
            {"kind": "Status", "status": "Failure", "code": 403, "message": "not the API server"},
        )
        if not self.server.names or self._common_name() in self.server.names:
            ask = route_to_loop(self.server.loop, lambda: self.server.metrics.answer(self.path))
            try:
                status, body = ask()
            except Unanswered as unanswered:
                status, body = 503, {"kind": "Status", "status": "Failure", "message": str(unanswered)}
        written = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def _common_name(self) -> str:
        connection = self.connection
        found = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
        subject: Any = (found or {}).get("subject", ())
        return next((value for part in subject for key, value in part if key == "commonName"), "")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        """Log a request, at debug level."""
        _log.debug(format, *args)


def context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """Return the settings of TLS: only clients with a certificate of the authority. Raises ``OSError``."""
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority))
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(certificate, key)
    return made
