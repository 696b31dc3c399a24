"""Keeping the gateway's configuration in step with services, endpoints and replicas' routes.

Two tables come from one look: the front door, which takes a service's requests
to its endpoints, and each local cluster's own gateway, which takes a replica's
requests to its pods. Changes within a moment are written once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from modelplane.api.decode import decode_as
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.compose.model_replica import GATEWAY_NAME
from modelplane.controllers.clusters import Clusters, Connection
from modelplane.kube import errors, resources
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.routing.envoy import files
from modelplane.routing.http_routes import workload_routes
from modelplane.routing.services import service_routes
from modelplane.routing.table import Listener, Table

_log = logging.getLogger(__name__)

GATEWAY_CLASS = "modelplane"
"""The GatewayClass of gateways that this Envoy serves."""

Write = Callable[[Path, Mapping[str, str]], bool]
"""Brings a directory to the given files; returns whether it was not there yet."""

_SETTLE_S = 0.05
_CLEAN_UP_S = 5.0


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
            if any(connection.loading for connection in self._clusters):
                # Routes of a cluster that is still being read would vanish for a moment.
                await asyncio.sleep(_SETTLE_S)
                self._touched.set()
                continue
            changed = await asyncio.to_thread(self._write, self._directory, files(self._table()))
            if changed:
                _log.info("gateway configuration written")
                # What the change left behind is cleaned up once Envoy has moved on from it.
                asyncio.get_running_loop().call_later(_CLEAN_UP_S, self.touch)
            if not self.open_at:
                self.open_at = self._address
                self._opened()
            for connection in self._clusters:
                await self._announce(connection)

    def _table(self) -> Table:
        host, _, port = self._address.rpartition(":")
        routes = service_routes(
            tuple(decode_as(ModelService, item) for item in self._services),
            tuple(decode_as(ModelEndpoint, item) for item in self._endpoints),
        )
        listeners = [Listener("front-door", host, int(port), routes)]
        for connection in self._clusters:
            gateway = _gateway(connection)
            if gateway is None:
                continue
            routes = workload_routes(
                tuple(connection.informer(resources.HTTP_ROUTES)),
                tuple(connection.informer(resources.SERVICES)),
                tuple(connection.informer(resources.ENDPOINT_SLICES)),
                self._dial,
            )
            port = gateway["spec"]["listeners"][0]["port"]
            listeners.append(Listener(f"cluster-{connection.name}", host, int(port), routes))
        return Table(tuple(listeners))

    async def _announce(self, connection: Connection) -> None:
        """Write the gateway's address into its status, as any Gateway API implementation does."""
        gateway = _gateway(connection)
        if gateway is None or gateway.get("status", {}).get("addresses"):
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


def _gateway(connection: Connection) -> Object | None:
    """Return the cluster's gateway where it is one that this Envoy serves."""
    gateway = connection.informer(resources.GATEWAYS).get(GATEWAY_NAME, SYSTEM_NAMESPACE)
    if gateway is None or gateway["spec"].get("gatewayClassName") != GATEWAY_CLASS:
        return None
    return gateway
