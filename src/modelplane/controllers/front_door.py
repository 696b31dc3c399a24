"""Keeping the gateway's configuration in step with services, endpoints and replicas' routes.

Two tables come from one look: the front door, which takes a service's requests
to its endpoints, and each local cluster's own gateway, which takes a replica's
requests to its pods. Changes within a moment are written once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from modelplane.api.decode import InvalidObject, ModelT, decode_as
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.controllers.clusters import Clusters, Connection
from modelplane.kube import errors, resources
from modelplane.kube.informer import Informer, key_of
from modelplane.kube.resources import Object
from modelplane.routing.envoy import files
from modelplane.routing.http_routes import GATEWAY_NAME, attached, unsupported, workload_routes
from modelplane.routing.services import service_routes
from modelplane.routing.table import Listener, Table

_log = logging.getLogger(__name__)

GATEWAY_CLASS = "modelplane"
"""The GatewayClass of gateways that this Envoy serves."""

Write = Callable[[Path, Mapping[str, str]], bool]
"""Brings a directory to the given files; returns whether it was not there yet."""

_SETTLE_S = 0.05
_CLEAN_UP_S = 5.0
_RETRY_S = 5.0


class FrontDoor:
    """Writes Envoy's configuration for one machine; without a directory, it does nothing."""

    def __init__(
        self,
        *,
        address: str,
        directory: Path | None,
        write: Write | None,
        dial: Callable[[str], str],
        services: Informer,
        endpoints: Informer,
        clusters: Clusters,
        opened: Callable[[], None],
    ) -> None:
        self._address = address
        self._directory = directory
        self._write = write
        self._dial = dial
        self._services = services
        self._endpoints = endpoints
        self._clusters = clusters
        self._opened = opened
        self._touched = asyncio.Event()
        self._workloads: dict[str, Listener] = {}
        self._problems: Mapping[str, str] = {}
        self.open_at = ""
        """``host:port`` of the front door once Envoy has been told of it."""

    def touch(self) -> None:
        """Say that something changed that may concern the configuration."""
        self._touched.set()

    async def run(self) -> None:
        """Write whatever changes, until cancelled."""
        if self._directory is None or self._write is None:
            return
        self._touched.set()
        while True:
            await self._touched.wait()
            await asyncio.sleep(_SETTLE_S)
            self._touched.clear()
            if not self.open_at and any(connection.loading for connection in self._clusters):
                # What was written before the start stays until all that answers has been read.
                self._touched.set()
                continue
            try:
                changed = await asyncio.to_thread(self._bring, self._directory, self._write, self._table())
            except Exception:  # noqa: BLE001 - Envoy goes on with what it has, and the next try may do
                _log.exception("cannot write the gateway configuration; trying again in %.0f s", _RETRY_S)
                asyncio.get_running_loop().call_later(_RETRY_S, self.touch)
                continue
            if changed:
                _log.info("gateway configuration written")
                # What the change left behind is cleaned up once Envoy has moved on from it.
                asyncio.get_running_loop().call_later(_CLEAN_UP_S, self.touch)
            if not self.open_at:
                self.open_at = self._address
                self._opened()
            await asyncio.gather(*(self._announce(connection) for connection in self._clusters))

    @staticmethod
    def _bring(directory: Path, write: Write, table: Table) -> bool:
        return write(directory, files(table))

    def _table(self) -> Table:
        host, _, port = self._address.rpartition(":")
        problems: dict[str, str] = {}
        routes = service_routes(
            _readable(ModelService, self._services, problems),
            _readable(ModelEndpoint, self._endpoints, problems),
        )
        listeners = {int(port): Listener("front-door", host, int(port), routes)}
        workloads: dict[str, Listener] = {}
        for connection in sorted(self._clusters, key=lambda connection: connection.name):
            # While a cluster is being read anew, what is known of it stays.
            listener = self._workloads.get(connection.name)
            if connection.routable:
                listener = self._workload(connection, problems)
            if listener is None:
                continue
            workloads[connection.name] = listener
            if taken := listeners.get(listener.port):
                problems[listener.name] = f"its gateway's port {listener.port} is that of {taken.name}"
            listeners.setdefault(listener.port, listener)
        self._workloads = workloads
        self._say(problems)
        return Table(tuple(listeners.values()))

    def _workload(self, connection: Connection, problems: dict[str, str]) -> Listener | None:
        gateway = _gateway(connection)
        if gateway is None:
            return None
        http_routes = tuple(connection.informer(resources.HTTP_ROUTES))
        for route in http_routes:
            if attached(route) and (problem := unsupported(route)):
                problems[f"HTTPRoute {key_of(route)} of cluster {connection.name}"] = problem
        routes = workload_routes(
            http_routes,
            tuple(connection.informer(resources.SERVICES)),
            tuple(connection.informer(resources.ENDPOINT_SLICES)),
            self._dial,
        )
        port = int(gateway["spec"]["listeners"][0]["port"])
        return Listener(f"cluster-{connection.name}", self._address.rpartition(":")[0], port, routes)

    def _say(self, problems: Mapping[str, str]) -> None:
        """Log what is left out of the configuration, once for each change."""
        for subject, problem in problems.items():
            if self._problems.get(subject) != problem:
                _log.warning("%s is not served: %s", subject, problem)
        self._problems = problems

    async def _announce(self, connection: Connection) -> None:
        """Write the gateway's address into its status, as any Gateway API implementation does."""
        gateway = _gateway(connection)
        if gateway is None or gateway.get("status", {}).get("addresses") or connection.problem:
            return
        host = self._address.rpartition(":")[0]
        metadata = gateway["metadata"]
        patch = {"status": {"addresses": [{"type": "IPAddress", "value": host}]}}
        try:
            await connection.client.patch(
                resources.GATEWAYS, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except errors.KubernetesError as error:
            _log.warning("cannot write the address of Gateway %s: %s", metadata["name"], error)
            asyncio.get_running_loop().call_later(_RETRY_S, self.touch)


def _readable(type_: type[ModelT], items: Iterable[Object], problems: dict[str, str]) -> tuple[ModelT, ...]:
    """Decode what can be decoded: one bad object must not stop the gateway for all others."""
    decoded = []
    for item in items:
        try:
            decoded.append(decode_as(type_, item))
        except InvalidObject as error:
            problems[f"{type_.__name__} {key_of(item)}"] = str(error)
    return tuple(decoded)


def _gateway(connection: Connection) -> Object | None:
    """Return the cluster's gateway where it is one that this Envoy serves."""
    gateway = connection.informer(resources.GATEWAYS).get(GATEWAY_NAME, SYSTEM_NAMESPACE)
    if gateway is None or gateway["spec"].get("gatewayClassName") != GATEWAY_CLASS:
        return None
    return gateway
