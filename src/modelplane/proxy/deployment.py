"""Envoys in a cluster: pods behind a Service, with their configuration in ConfigMaps.

They are the gateway of the control plane only: an inference cluster has its own.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from modelplane.gateway.hosts import authority
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.config_maps import INDEX, SELECTOR, Published, published
from modelplane.proxy.interface import GatewayAddress

LISTENS = ("0.0.0.0", 8080)  # noqa: S104 - in a pod of its own
"""Address and port of Envoy in a pod, unless ``modelplane gateway`` has others as options."""

_HTTP = "http"
_HTTP_PORT = 80


class GatewayDeployment:
    """A ``Proxy`` that is configured through the API server and found through a Service."""

    listens = LISTENS
    serves_clusters = False

    def __init__(self, client: Client, namespace: str, service: str) -> None:
        """``client`` writes the ConfigMaps."""
        self._client = client
        self._namespace = namespace
        self._service = service
        self._config_maps = Informer(client, resources.CONFIG_MAPS, namespace=namespace, labels=SELECTOR)
        self._services = Informer(
            client, resources.SERVICES, namespace=namespace, fields=f"metadata.name={service}"
        )
        self.informers = (self._config_maps, self._services)
        self._files: Mapping[str, str] = {}
        self._published: Published | None = None

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Publish files: first the chunks, then the index that names them; then drop the old chunks."""
        if self._published is None or files != self._files:
            self._published = await asyncio.to_thread(published, files, self._namespace)
            self._files = files
        wanted = (*self._published.chunks, self._published.index)
        # One at a time: the last write counts.
        written = [manifest for manifest in wanted if await self._write(manifest)]
        names = {manifest["metadata"]["name"] for manifest in wanted}
        for old in self._config_maps:
            if old["metadata"]["name"].startswith(f"{INDEX}-") and old["metadata"]["name"] not in names:
                await self._delete(old)
        return bool(written)

    async def _write(self, manifest: Object) -> bool:
        known = self._config_maps.get(manifest["metadata"]["name"], self._namespace)
        if known is not None and all(
            known.get(key) == manifest[key] for key in ("data", "binaryData") if key in manifest
        ):
            return False
        self._config_maps.remember(await self._client.apply(manifest))
        return True

    async def _delete(self, config_map: Object) -> None:
        metadata = config_map["metadata"]
        await self._client.delete(
            resources.CONFIG_MAPS, metadata["name"], self._namespace, uid=metadata["uid"]
        )

    def address(self) -> GatewayAddress:
        """Return the address of the Service, or the reason why it has none."""
        service = self._services.get(self._service, self._namespace)
        if service is None:
            return GatewayAddress(
                problem=f'the gateway has no Service "{self._namespace}/{self._service}": create it'
            )
        return address_of(service)


def address_of(service: Mapping[str, Any]) -> GatewayAddress:
    """Return the address of a Service for clients."""
    spec, metadata = service["spec"], service["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    host = f"{name}.{namespace}.svc"
    if spec.get("type") == "LoadBalancer":
        ingresses = service.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        host = next(filter(None, (each.get("ip") or each.get("hostname") for each in ingresses)), "")
        if not host:
            return GatewayAddress(
                problem=f'Service "{namespace}/{name}" of type LoadBalancer has no address yet: '
                "where nothing provides load balancers, make its type ClusterIP or NodePort"
            )
    ports = sorted(spec.get("ports") or (), key=lambda each: each.get("name") != _HTTP)
    port = ports[0]["port"] if ports else _HTTP_PORT
    return GatewayAddress(authority(host, port))
