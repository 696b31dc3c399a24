"""Envoys as the controllers see them: pods of a cluster behind a Service, or the Envoy of this machine.

Pods get their configuration in ConfigMaps and Secrets. They are the gateway of the control plane only: an
inference cluster has its own. The Envoy of this machine reads its configuration from a directory.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.api.rejected import Rejected
from modelplane.gateway import hosts
from modelplane.gateway.envoy.access_log import STANDARD_OUTPUT
from modelplane.gateway.envoy.envoy_names import has_tls
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy import gateway_metrics, ledgers, module
from modelplane.proxy.envoy_directory import USAGE_LOG
from modelplane.proxy.interface import GatewayAddress, Write
from modelplane.proxy.ledgers import LedgerFile, get_now
from modelplane.proxy.publication import (
    INDEX,
    SELECTOR,
    Channel,
    Incomplete,
    Published,
    Read,
    build_objects,
    is_private,
    read,
)

LISTENS = ("0.0.0.0", 8080)  # noqa: S104 - in a pod of its own
"""Address and port of Envoy in a pod, unless ``modelplane gateway`` has others as options."""


class GatewayDirectory:
    """A ``Proxy`` that is the gateway of the control plane and of the clusters on this machine."""

    serves_clusters = True
    usage_log = USAGE_LOG
    gateways = 1
    ledger_log = ""
    informers: tuple[Informer, ...] = ()

    def __init__(self, directory: Path, address: str, write: Write) -> None:
        """``address`` is the ``HOST:PORT`` at which it accepts requests."""
        host, _, port = address.rpartition(":")
        self.listens = (host, int(port))
        self._address = address
        self._directory = directory
        self._write = write
        self._ledger = LedgerFile(directory)

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Write the files that differ."""
        return await asyncio.to_thread(self._write, self._directory, files)

    def list_formers(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the files below a folder."""
        paths = (self._directory / folder).glob("*.json")
        return tuple(path.relative_to(self._directory).as_posix() for path in paths)

    def read_former(self, path: str) -> str:
        """Return a file of the directory; empty if there is none."""
        file = self._directory / path
        return file.read_text(errors="replace") if file.exists() else ""

    def find_former_problem(self) -> str | None:
        """Return nothing: ``read_former`` raises ``OSError`` for a file that cannot be read."""
        return None

    async def sum_usage(self) -> Ledger | None:
        """Return the sums of the records in the directory."""
        return await asyncio.to_thread(self._ledger.look)

    async def load(self) -> Load:
        """Return what Envoy counts."""
        return await asyncio.to_thread(gateway_metrics.read_directory, self._directory)

    def find_address(self) -> GatewayAddress:
        """Return the address at which Envoy accepts requests."""
        return GatewayAddress(self._address, without_module=module.find_missing(self._directory) or "")


class GatewayDeployment:
    """A ``Proxy`` that is configured through the API server and found through a Service."""

    listens = LISTENS
    serves_clusters = False
    usage_log = STANDARD_OUTPUT
    ledger_log = USAGE_LOG

    def __init__(self, client: Client, namespace: str, service: str, *, without_module: str = "") -> None:
        """``client`` writes the objects. ``without_module`` is why pods of this version have no module."""
        self._namespace = namespace
        self._service = service
        self._without_module = without_module
        self._takes_tls = False
        self._gateways = 1
        self._private = _Publisher(client, Channel.PRIVATE, GATEWAY_NAMESPACE)
        self._public = _Publisher(client, Channel.PUBLIC, namespace)
        self._client = client
        self._usage = Informer(
            client, resources.CONFIG_MAPS, namespace=GATEWAY_NAMESPACE, labels=ledgers.SELECTOR
        )
        self._ledgers = ledgers.Published()
        self._services = Informer(
            client, resources.SERVICES, namespace=namespace, fields=f"metadata.name={service}"
        )
        self._slices = Informer(
            client,
            resources.ENDPOINT_SLICES,
            namespace=namespace,
            labels=f"kubernetes.io/service-name={service}",
        )
        self.informers = (
            self._public.informer,
            self._services,
            self._private.informer,
            self._slices,
            self._usage,
        )

    @property
    def gateways(self) -> int:
        """Return the number of pods that are ready; a pod with two addresses is in two EndpointSlices."""
        ready = gateway_metrics.list_ready_pods(tuple(self._slices))
        # Without any, they are about to be ready again.
        self._gateways = len(ready) or self._gateways
        return self._gateways

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Publish files, first the private ones, which the others name."""
        self._takes_tls = has_tls(files)
        private = {path: content for path, content in files.items() if is_private(path, content)}
        others = {path: content for path, content in files.items() if path not in private}
        written = [await self._private.publish(private), await self._public.publish(others, tuple(private))]
        return any(written)

    def list_formers(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the private files below a folder that are published."""
        return tuple(path for path in self._private_files() if path.startswith(folder))

    def read_former(self, path: str) -> str:
        """Return a file that is published; empty if there is none, or the files are not complete."""
        if is_private(path):
            return self._private_files().get(path, "")
        published = read(tuple(self._public.informer))
        return published.files.get(path, "") if isinstance(published, Read) else ""

    def find_former_problem(self) -> str | None:
        """Return why the private files that are published cannot be read."""
        published = read(tuple(self._private.informer), Channel.PRIVATE)
        return published.reason if isinstance(published, Incomplete) else None

    def _private_files(self) -> Mapping[str, str]:
        published = read(tuple(self._private.informer), Channel.PRIVATE)
        return published.files if isinstance(published, Read) else {}

    async def sum_usage(self) -> Ledger | None:
        """Return the sums of every gateway that has published some, and delete those of periods long over."""
        for item in tuple(self._usage):
            if ledgers.is_over(item, get_now()):
                metadata = item["metadata"]
                await self._client.delete(
                    resources.CONFIG_MAPS, metadata["name"], GATEWAY_NAMESPACE, uid=metadata["uid"]
                )
        return await asyncio.to_thread(self._ledgers.read, tuple(self._usage))

    async def load(self) -> Load:
        """Return what the ready pods count."""
        return await gateway_metrics.read_pods(gateway_metrics.list_ready_pods(tuple(self._slices)))

    def find_address(self) -> GatewayAddress:
        """Return the address of the Service, or the reason why it has none."""
        service = self._services.get(self._service, self._namespace)
        if service is None:
            problem = f'the gateway has no Service "{self._namespace}/{self._service}": create it'
            return GatewayAddress(problem=problem, without_module=self._without_module)
        return replace(read_address(service, tls=self._takes_tls), without_module=self._without_module)


class _Publisher:
    """Writes the objects of one channel."""

    def __init__(self, client: Client, channel: Channel, namespace: str) -> None:
        self._client = client
        self._channel = channel
        self._namespace = namespace
        self.informer = Informer(client, channel.resource, namespace=namespace, labels=SELECTOR)
        self._made_of: tuple[Mapping[str, str], tuple[str, ...]] = ({}, ())
        self._published: Published | None = None

    async def publish(self, files: Mapping[str, str], private: tuple[str, ...] = ()) -> bool:
        """Publish files: first the chunks, then the index that names them; then drop the old chunks."""
        if not files and not len(self.informer):
            return False
        if self._published is None or (files, private) != self._made_of:
            make = partial(build_objects, private=private, former=self._published)
            self._published = await asyncio.to_thread(make, files, self._namespace, self._channel)
            self._made_of = files, private
        desired = (*self._published.chunks, self._published.index)
        # One at a time: the last write counts.
        written = [manifest for manifest in desired if await self._write(manifest)]
        names = {manifest["metadata"]["name"] for manifest in desired}
        for old in self.informer:
            if old["metadata"]["name"].startswith(f"{INDEX}-") and old["metadata"]["name"] not in names:
                await self._client.delete(
                    self._channel.resource,
                    old["metadata"]["name"],
                    self._namespace,
                    uid=old["metadata"]["uid"],
                )
        return bool(written)

    async def _write(self, manifest: Object) -> bool:
        existing = self.informer.get(manifest["metadata"]["name"], self._namespace)
        if existing is not None and all(
            existing.get(key) == manifest[key] for key in ("data", "binaryData") if key in manifest
        ):
            return False
        self.informer.remember(await self._client.apply(manifest))
        return True


def read_address(service: Mapping[str, Any], *, tls: bool = False) -> GatewayAddress:
    """Return the address of a Service for clients."""
    host = hosts.find_service_address(service, tls=tls)
    return GatewayAddress(problem=host.message) if isinstance(host, Rejected) else GatewayAddress(host)
