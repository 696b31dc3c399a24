"""Configuration of the gateway: it assembles the routes of all owners, and writes them to Envoy.

The gateway sends a service's requests to its endpoints. On a laptop the same
Envoy is also the gateway of each local cluster, which sends a replica's requests
to its pods; one table has the routes of both. Changes within a moment are
written once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from modelplane.api import labels
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import kind_name
from modelplane.api.model_key import ModelKey
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Blocked, Requirement
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.gateway.fleet_routes import Compose, Routes
from modelplane.controllers.gateway.gateway_admission import Keys
from modelplane.controllers.gateway.named_secrets import Certificates, ProviderCredentials
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.runnable import Runnable
from modelplane.gateway import tokens
from modelplane.gateway.credentials import select_usable
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import TLS
from modelplane.gateway.envoy.envoy_routes import count_endpoints, list_possible_files
from modelplane.gateway.gateway_api.http_routes import build_workload_routes, check_supported, is_attached
from modelplane.gateway.mutual_tls import Identity
from modelplane.gateway.route_table import Front, Listener, Table
from modelplane.gateway.services import EndpointShare
from modelplane.gateway.tokens import GatewayKeys
from modelplane.kube import errors, resources
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object
from modelplane.proxy.interface import FLEET_LISTENER, GatewayAddress, Proxy, cluster_listener

_log = logging.getLogger(__name__)

GATEWAY_CLASS = "modelplane"
"""GatewayClass of the gateways that a laptop's Envoy serves."""

_SETTINGS = frozenset({kind_name(InferenceGateway), kind_name(ModelKey)})
_SETTLE_S = 0.05
_CLEAN_UP_S = 5.0
_LOOK_AGAIN_S = 10.0
_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class GatewaySources:
    """Sources of what the gateway has besides routes."""

    destinations: Callable[[], Destinations | Blocked]
    front: Callable[[], Awaitable[Front | Blocked]]
    written: Callable[[], None]
    """Notes that the front is in force."""
    certificates: Certificates
    credentials: ProviderCredentials
    identity: Callable[[], Identity | None] = lambda: None
    """The gateway's identity for mutual TLS to clusters."""
    keys: Keys = field(default_factory=Keys)
    """The keys of tokens for clusters."""


class GatewayController(Runnable):
    """Writes the configuration of one proxy; does nothing without one."""

    name = "gateway"

    def __init__(
        self,
        proxy: Proxy | None,
        *,
        dial: Callable[[str], str],
        compose: Compose,
        clusters: Iterable[Connection],
        opened: Callable[[], None],
        settings: GatewaySources,
        settled: Callable[[OwnerKey], None] = lambda _key: None,
    ) -> None:
        """``settled`` takes a ModelService with another share of endpoints, or a route newly in force."""
        self._proxy = proxy
        self._dial = dial
        self._settled = settled
        self._routes = Routes(compose, settled)
        self._clusters = clusters
        self._opened = opened
        self._settings = settings
        self._known_destinations = Destinations()
        self._sending = GatewayKeys()
        self._touched = asyncio.Event()
        self._workloads: dict[str, Listener] = {}
        self._problems: Mapping[str, str] = {}
        self._written = False
        self._loaded: frozenset[OwnerKey] = frozenset()
        """Services with an endpoint in the configuration in force."""
        self._files: Mapping[str, str] = {}
        self._made_of: Table | None = None
        self._again: asyncio.TimerHandle | None = None
        self.address = GatewayAddress()
        """Address of the gateway for clients, after the first write."""
        for informer in self.informers:
            informer.add_handler(lambda _item: self.touch())

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Informers to run, and to sync before ``run``."""
        return self._proxy.informers if self._proxy else ()

    def changed(self, item: Object, *, is_gone: bool) -> None:
        """Note the change of an object of the control plane."""
        if self._proxy is not None and (
            self._routes.changed(item, is_gone=is_gone) or item["kind"] in _SETTINGS
        ):
            self.touch()

    def secret_changed(self, secret: Object) -> None:
        """Note the change of a Secret of the system's namespace."""
        if self._settings.certificates.uses(secret):
            self.touch()

    def requires(self, requirement: Requirement) -> bool:
        """Return True if the gateway needs an object that is watched by its name."""
        return self._settings.credentials.requires(requirement)

    def named_changed(self, item: Object) -> None:
        """Note the change of an object that is watched by its name."""
        if self._settings.credentials.concerns(item):
            self.touch()

    def share(self, key: OwnerKey) -> EndpointShare | None:
        """Return how many endpoints a ModelService may route to; None without a proxy."""
        return self._routes.share(key) if self._proxy else None

    def has_loaded(self, key: OwnerKey) -> bool:
        """Return False if the configuration in force leads to no endpoint of a ModelService."""
        return not self._written or key in self._loaded

    def addresses(self, cluster: str) -> frozenset[tuple[str, int]]:
        """Return where the proxy sends a cluster's requests, if it is the gateway of that cluster too."""
        listener = self._workloads.get(cluster)
        routes = listener.routes if listener else ()
        return frozenset(host for route in routes for backend in route.backends for host in backend.hosts)

    def touch(self) -> None:
        """Look at the configuration again: one of its inputs may have changed."""
        self._touched.set()

    async def run(self) -> None:
        """Write each change of the configuration, until cancelled."""
        if self._proxy is None:
            return
        self._touched.set()
        await self._restore(self._proxy)
        while True:
            # Not wait_for, which in Python 3.11 forgets a cancellation that comes with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.certificates.look_again_s):
                    await self._touched.wait()
            await asyncio.sleep(_SETTLE_S)
            self._touched.clear()
            # Routes that are not composed yet would be removed by the first write, and only by that one.
            while (waiting := await self._routes.update()) and not self._written:
                pass
            if waiting:
                self._touched.set()
            if not self._written and self._reading(self._proxy):
                # The configuration from before the start stays until all clusters that answer have been read.
                self._touched.set()
                continue
            if (front := await self._admission()) is None:
                continue
            try:
                await self._settings.certificates.update(
                    self._proxy.read_former, partial(self._proxy.list_formers, TLS)
                )
                table = self._table(self._proxy, front)
                served = self._routes.list_served()
                changed = await self._proxy.bring(await asyncio.to_thread(self._files_of, table))
            except (errors.KubernetesError, OSError) as error:
                _log.warning("cannot write the gateway configuration; trying again: %s", error)
                asyncio.get_running_loop().call_later(_RETRY_S, self.touch)
                continue
            except Exception:  # noqa: BLE001 - Envoy keeps its configuration, and the next attempt may succeed
                _log.exception("cannot write the gateway configuration; trying again in %.0f s", _RETRY_S)
                asyncio.get_running_loop().call_later(_RETRY_S, self.touch)
                continue
            # Before the first write, every service was taken to be in force.
            for key in served - self._loaded if self._written else ():
                self._settled(key)
            self._written, self._loaded = True, served
            self._settings.written()
            self._settings.keys.sent(self._sending)
            if changed:
                _log.info("gateway configuration written")
                # Resources of the previous configuration are removed once Envoy no longer uses them.
                asyncio.get_running_loop().call_later(_CLEAN_UP_S, self.touch)
            address = self._settings.certificates.announced(self._proxy.find_address())
            self._look_at(replace(address, asks_for_keys=front.keys is not None))
            if self._proxy.serves_clusters:
                await asyncio.gather(*(self._announce(cluster, self._proxy) for cluster in self._clusters))

    async def _restore(self, proxy: Proxy) -> None:
        """Read which routes an earlier process wrote: they keep their endpoints."""
        while True:
            try:
                contents = [
                    await asyncio.to_thread(proxy.read_former, file)
                    for file in list_possible_files(FLEET_LISTENER)
                ]
            except OSError as error:
                _log.warning("cannot read the gateway configuration; trying again: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            self._routes.restore(await asyncio.to_thread(count_endpoints, contents))
            return

    def _files_of(self, table: Table) -> Mapping[str, str]:
        """Return the files of a table; those of the former table if it is the same."""
        if self._made_of != table:
            self._files, self._made_of = render_files(table), table
        return self._files

    def _look_at(self, address: GatewayAddress) -> None:
        """Publish the address, and look again while Envoy lacks the module, which it gets at its start."""
        if self.address != address:
            self.address = address
            self._opened()
        if self._again:
            self._again.cancel()
        loop = asyncio.get_running_loop()
        self._again = loop.call_later(_LOOK_AGAIN_S, self.touch) if address.without_module else None

    def _reading(self, proxy: Proxy) -> bool:
        self._settings.credentials.read(self._routes)
        return self._settings.credentials.loading or (
            proxy.serves_clusters and any(connection.loading for connection in self._clusters)
        )

    async def _admission(self) -> Front | None:
        """Return who is admitted; None before it is known, when the former configuration stays."""
        if self._settings.keys.current() is None:
            # Clusters may require the tokens of the configuration that is in force.
            asyncio.get_running_loop().call_later(_RETRY_S, self.touch)
            return None
        front = await self._settings.front()
        if isinstance(front, Blocked):
            self._say({"the gateway keeps who it admits": front.cause})
            return None
        return front

    def _table(self, proxy: Proxy, front: Front) -> Table:
        host, port = proxy.listens
        problems = dict(self._routes.problems)
        destinations = self._settings.destinations()
        if isinstance(destinations, Blocked):
            problems["the gateway keeps its allowed and denied destinations"] = destinations.cause
        else:
            self._known_destinations = destinations
        routes, disagreements = self._routes.agreed()
        problems |= disagreements
        credentials = self._settings.credentials.read(routes)
        keys = self._sending = self._settings.keys.current() or GatewayKeys()
        routes = tokens.add_tokens(routes, keys)
        fleet = Listener(
            FLEET_LISTENER,
            host,
            port,
            select_usable(
                routes, credentials.credentials, has_module=not proxy.find_address().without_module
            ),
            self._known_destinations,
            replace(front, credentials=credentials, gateways=proxy.gateways),
            self._settings.certificates.tls,
            proxy.usage_log,
            proxy.ledger_log if front.counts or front.keys is not None else "",
        )
        listeners = {port: fleet}
        workloads: dict[str, Listener] = {}
        served = self._clusters if proxy.serves_clusters else ()
        for connection in sorted(served, key=lambda connection: connection.name):
            # While a cluster is being read again, its known routes stay.
            listener = self._workloads.get(connection.name)
            if connection.watches.routable:
                listener = self._workload(connection, host, problems, keys)
            if listener is None:
                continue
            workloads[connection.name] = listener
            if taken := listeners.get(listener.port):
                problem = f"its gateway's port {listener.port} is that of {taken.name}"
                problems[f"{listener.name} is not served"] = problem
            listeners.setdefault(listener.port, listener)
        self._workloads = workloads
        self._say(problems)
        return Table(tuple(listeners.values()), self._settings.identity())

    def _workload(
        self, connection: Connection, host: str, problems: dict[str, str], keys: GatewayKeys
    ) -> Listener | None:
        gateway = _gateway(connection)
        if gateway is None:
            return None
        http_routes = connection.watches.objects(resources.HTTP_ROUTES)
        for route in http_routes:
            if is_attached(route) and (rejected := check_supported(route)):
                title = f"HTTPRoute {build_key(route)} of cluster {connection.name} is not served"
                problems[title] = rejected.message
        routes = build_workload_routes(
            http_routes,
            connection.watches.objects(resources.SERVICES),
            connection.watches.objects(resources.ENDPOINT_SLICES),
            self._dial,
            pools=connection.watches.objects(resources.INFERENCE_POOLS),
            pods=connection.watches.objects(resources.PODS),
        )
        # Their HTTPRoutes are as the version before tokens wrote them, which serves no others.
        replicas = {
            str(build_key(route))
            for route in http_routes
            if (route["metadata"].get("annotations") or {}).get(labels.OWNER_KIND) == kind_name(ModelReplica)
        }
        routes = tuple(
            replace(served, token=tokens.find_required(keys, served.name))
            if served.name in replicas and served.token is None
            else served
            for served in routes
        )
        port = int(gateway["spec"]["listeners"][0]["port"])
        return Listener(cluster_listener(connection.name), host, port, routes)

    def _say(self, problems: Mapping[str, str]) -> None:
        """Log each problem of the configuration once."""
        for subject, problem in problems.items():
            if self._problems.get(subject) != problem:
                _log.warning("%s: %s", subject, problem)
        self._problems = problems

    async def _announce(self, connection: Connection, proxy: Proxy) -> None:
        """Write the gateway's address into its status, as any Gateway API implementation does."""
        gateway = _gateway(connection)
        if gateway is None or gateway.get("status", {}).get("addresses") or connection.problem:
            return
        host, _ = proxy.listens
        metadata = gateway["metadata"]
        patch = {"status": {"addresses": [{"type": "IPAddress", "value": host}]}}
        try:
            await connection.client.patch(
                resources.GATEWAYS, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except errors.KubernetesError as error:
            _log.warning("cannot write the address of Gateway %s: %s", metadata["name"], error)
            asyncio.get_running_loop().call_later(_RETRY_S, self.touch)


def _gateway(connection: Connection) -> Object | None:
    """Return the cluster's gateway if a laptop's Envoy serves it."""
    for gateway in connection.watches.objects(resources.GATEWAYS):
        if gateway["spec"].get("gatewayClassName") == GATEWAY_CLASS:
            return gateway
    return None
