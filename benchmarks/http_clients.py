"""HTTP clients that could be the controllers' connection to a cluster, behind one interface."""

import json
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import cache, partial
from typing import Any, Protocol

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from member_clusters import TEAM

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

MANAGER = "benchmark"
TIMEOUT_S = 120.0


class Cluster(Protocol):
    """A client of one cluster."""

    def watch(self, name: str) -> AsyncIterator[Object]:
        """Yield the states of one ConfigMap, the present one first."""

    async def apply(self, manifest: Object) -> None:
        """Apply an object."""

    async def close(self) -> None:
        """Close every connection."""


class Ours:
    """The client of the controllers, over one transport or another."""

    def __init__(self, kubeconfig: str, transport: Callable[[ssl.SSLContext], Any] | None = None) -> None:
        self._client = Client.from_kubeconfig(
            json.loads(kubeconfig), field_manager=MANAGER, timeout_s=TIMEOUT_S
        )
        if transport is not None:
            settings = ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_S), trust_env=False).httpx_params(
                KubeConfig.from_dict(json.loads(kubeconfig)).get()
            )
            settings["transport"] = transport(settings["verify"])
            self._client = Client(httpx2.AsyncClient(**settings), MANAGER, TIMEOUT_S)

    async def watch(self, name: str) -> AsyncIterator[Object]:
        fields = f"metadata.name={name}"
        async with aclosing(self._client.watch(resources.CONFIG_MAPS, "0", TEAM, fields=fields)) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    yield event.object

    async def apply(self, manifest: Object) -> None:
        await self._client.apply(manifest)

    async def close(self) -> None:
        await self._client.close()


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """aiohttp's pool below httpx."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._session = session(context)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        from yarl import URL

        answer = await self._session.request(
            request.method,
            URL(str(request.url), encoded=True),
            headers={name: value for name, value in request.headers.items() if name != "host"},
            data=await request.aread() or None,
            allow_redirects=False,
        )
        return httpx2.Response(answer.status, headers=answer.raw_headers, stream=AiohttpBody(answer))

    async def aclose(self) -> None:
        await self._session.close()


class AiohttpBody(httpx2.AsyncByteStream):
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._answer.content.iter_any():
            yield chunk

    async def aclose(self) -> None:
        self._answer.release() if self._answer.content.at_eof() else self._answer.close()


def session(context: ssl.SSLContext, **options: Any) -> Any:
    """Return aiohttp's pool without limits."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S),
        auto_decompress=False,
        **options,
    )


class AiohttpAlone:
    """The least that a client over aiohttp can do, and with the TLS buffers of ours."""

    def __init__(self, kubeconfig: str) -> None:
        SSLProtocol.max_size = 1 << 15  # in all of this process; aiohttp leaves no other way
        single = KubeConfig.from_dict(json.loads(kubeconfig)).get()
        settings = ConnectionParams(trust_env=False).httpx_params(single)
        self._url = f"{settings['base_url']}/api/v1/namespaces/{TEAM}/configmaps"
        token = {"Authorization": f"Bearer {single.user.token}", "Accept": "application/json"}
        self._session = session(settings["verify"], headers=token)

    async def watch(self, name: str) -> AsyncIterator[Object]:
        params = {"watch": "true", "resourceVersion": "0", "fieldSelector": f"metadata.name={name}"}
        async with self._session.get(self._url, params=params) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                yield msgspec.json.decode(line)["object"]

    async def apply(self, manifest: Object) -> None:
        params = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": "true"}
        async with self._session.patch(
            f"{self._url}/{manifest['metadata']['name']}",
            params=params,
            data=msgspec.json.encode(manifest),
            headers={"Content-Type": "application/apply-patch+yaml"},
        ) as answer:
            answer.raise_for_status()
            msgspec.json.decode(await answer.read())

    async def close(self) -> None:
        await self._session.close()


@cache
def config_maps() -> Any:
    """Return lightkube's generic resource; it knows each kind once."""
    from lightkube.generic_resource import create_namespaced_resource

    return create_namespaced_resource("", "v1", "ConfigMap", "configmaps")


class Lightkube:
    """lightkube's own client."""

    def __init__(self, kubeconfig: str) -> None:
        from lightkube import AsyncClient

        self._kind = config_maps()
        config = KubeConfig.from_dict(json.loads(kubeconfig)).get()
        self._client = AsyncClient(
            config, timeout=httpx2.Timeout(TIMEOUT_S), field_manager=MANAGER, trust_env=False
        )

    async def watch(self, name: str) -> AsyncIterator[Object]:
        fields = {"metadata.name": name}
        async for _, found in self._client.watch(
            self._kind, namespace=TEAM, fields=fields, resource_version="0"
        ):
            yield found

    async def apply(self, manifest: Object) -> None:
        await self._client.apply(self._kind.from_dict(manifest), namespace=TEAM, force=True)

    async def close(self) -> None:
        await self._client.close()


CLIENTS: dict[str, Callable[[str], Cluster]] = {
    "ours": Ours,
    "aiohttp": partial(Ours, transport=AiohttpTransport),
    "aiohttp-alone": AiohttpAlone,
    "lightkube": Lightkube,
}
