"""A real Envoy with certificates: handshakes, versions, and rotation below a running stream."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from modelplane.api.inference_gateway import DEFAULT_NAME, TLSVersion
from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.gateway.envoy.certificate_files import name_certificate_file
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.route_table import Certificate, Listener, Route, Table, Tls
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy import admin, envoy_directory, envoy_directory as envoy_files
from modelplane.proxy.proxies import GatewayDirectory
from support import kinds
from support.certificates import server_pair
from support.controllers import running_controllers
from support.envoys import EVENTS, LOCAL, Gateway, engines, raw_get, running_envoy, service
from support.fleets import ControlPlane
from support.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.kubernetes

HOST = "models.example"


class Secured:
    """A gateway that serves TLS."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.directory = gateway.directory
        self.routes: tuple[Route, ...] = ()

    def certificate(self, host: str = HOST, name: str = "front") -> Certificate:
        return Certificate(name, *server_pair(self.directory, host))

    def write(self, tls: Tls | None) -> None:
        listener = Listener("front-door", "127.0.0.1", self.gateway.port, self.routes, LOCAL, tls=tls)
        assert envoy_files.write(self.directory, render_files(Table((listener,))))

    async def serve(self, tls: Tls, *routes: Route) -> None:
        """Write a configuration and wait until its first certificate is served."""
        self.routes = routes or self.routes
        self.write(tls)
        await self.until(lambda served: served == der(tls.certificates[0]))

    async def until(self, check: Callable[[bytes], bool], host: str = HOST) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not check(await self.served(host)):
                await asyncio.sleep(0.02)

    def context(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.directory / "authority.pem")
        if protocols:
            context.set_alpn_protocols(protocols)
        return context

    async def handshake(self, context: ssl.SSLContext, host: str = HOST) -> ssl.SSLObject:
        """Return the TLS of a new connection, closed again."""
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self.gateway.port, ssl=context, server_hostname=host
        )
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.close()
        return secured

    async def served(self, host: str = HOST) -> bytes:
        """Return the certificate that a client gets; empty while there is no TLS."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            return (await self.handshake(context, host)).getpeercert(binary_form=True) or b""
        except (OSError, ssl.SSLError):
            return b""

    def client(self, *, http2: bool) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(http2=http2, http1=not http2, verify=self.context(), trust_env=False)

    async def takes_tls_1_2(self) -> bool:
        context = self.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        try:
            return (await self.handshake(context)).version() == "TLSv1.2"
        except ssl.SSLError as error:
            if error.reason != "TLSV1_ALERT_PROTOCOL_VERSION":
                raise
            return False

    async def plain(self) -> bytes:
        """Return the answer to a request without TLS; empty if the connection is closed."""
        try:
            return await raw_get(self.gateway.port, "/ml/qwen/x")
        except ConnectionError:
            return b""

    async def until_closed(self) -> None:
        """Wait until each connection without TLS is closed."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.plain():
                await asyncio.sleep(0.02)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.gateway.port}"


def der(certificate: Certificate) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.chain)


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Secured]:
    async with running_envoy(tmp_path) as gateway:
        yield Secured(gateway)


async def test_http_2_and_1_1_are_offered_and_plain_http_is_refused(secured: Secured) -> None:
    async with engines("a") as (engine,):
        await secured.serve(Tls((secured.certificate(),)), service(engine.backend()))
        offered = {
            protocol: (await secured.handshake(secured.context(protocol))).selected_alpn_protocol()
            for protocol in ("h2", "http/1.1")
        }
        answers = {}
        for http2 in (True, False):
            async with secured.client(http2=http2) as client:
                answer = await client.get(
                    f"{secured.url}/ml/qwen/x", headers={"host": HOST}, extensions={"sni_hostname": HOST}
                )
                answers[answer.http_version] = (
                    answer.status_code,
                    answer.json()["headers"]["x-forwarded-proto"],
                )
        assert await secured.plain() == b""
    assert offered == {"h2": "h2", "http/1.1": "http/1.1"}
    assert answers == dict.fromkeys(("HTTP/2", "HTTP/1.1"), (200, "https"))


@pytest.mark.parametrize(("minimum", "accepted"), [(TLSVersion.V1_2, True), (TLSVersion.V1_3, False)])
async def test_the_minimum_version_is_enforced(secured: Secured, minimum: TLSVersion, accepted: bool) -> None:
    await secured.serve(Tls((secured.certificate(),), minimum))
    assert await secured.takes_tls_1_2() == accepted
    assert (await secured.handshake(secured.context())).version() == "TLSv1.3"


async def test_the_host_that_a_client_asks_for_chooses_the_certificate_and_the_first_is_the_default(
    secured: Secured,
) -> None:
    first, second = secured.certificate("z.example", "z"), secured.certificate("a.example", "a")
    await secured.serve(Tls((first, second)))
    served = {host: await secured.served(host) for host in ("z.example", "a.example", "other.example")}
    assert served == {"z.example": der(first), "a.example": der(second), "other.example": der(first)}


async def test_a_certificate_is_replaced_below_a_running_stream_and_a_damaged_one_changes_nothing(
    secured: Secured,
) -> None:
    old, new = secured.certificate(), secured.certificate()
    seen = []
    async with engines("a") as (engine,), secured.client(http2=True) as client:
        await secured.serve(Tls((old,)), service(engine.backend()))
        lds = (secured.directory / "lds.json").read_text()
        async with client.stream(
            "GET", f"{secured.url}/ml/qwen/x?stream", extensions={"sni_hostname": HOST}
        ) as stream:
            async for line in stream.aiter_lines():
                seen += [line] if line else []
                if len(seen) == 3:
                    secured.write(Tls((new,)))
                    await secured.until(lambda served: served == der(new))
                    secured.write(Tls((replace(old, key="damaged"),)))
                    await secured.until(
                        lambda _: "tls/front.json" in (admin.find_reload_problem(secured.directory) or "")
                    )
                    assert await secured.served() == der(new)
        assert (secured.directory / "lds.json").read_text() == lds
    assert seen == [f"data: {number}" for number in range(EVENTS)]
    assert (secured.directory / name_certificate_file("front")).stat().st_mode & 0o777 == 0o600


async def test_without_a_certificate_each_connection_is_closed(secured: Secured) -> None:
    async with engines("a") as (engine,):
        secured.routes = (service(engine.backend()),)
        secured.write(Tls(()))
        await secured.until_closed()
        assert await secured.served() == b""
        certificate = secured.certificate()
        await secured.serve(Tls((certificate,)))


class ForClients(GatewayDirectory):
    """The gateway of the services only."""

    serves_clusters = False


class Fleet:
    """The one InferenceGateway, its certificates, and the controllers that configure an Envoy."""

    def __init__(self, client: Client, secured: Secured) -> None:
        self._client = client
        self._secured = secured

    @asynccontextmanager
    async def controllers(self, plane: ControlPlane) -> AsyncIterator[None]:
        address = f"127.0.0.1:{self._secured.gateway.port}"
        async with running_controllers(
            plane, ForClients(self._secured.directory, address, envoy_directory.write)
        ):
            yield

    async def apply(self, minimum_version: str) -> None:
        """Apply the gateway with a minimum version, and a service."""
        tls = {"certificateRefs": [{"name": "front"}], "minimumVersion": minimum_version}
        selector = {"matchLabels": {"model": "qwen"}}
        for kind, metadata, spec in (
            ("InferenceGateway", {"name": DEFAULT_NAME}, {"backend": "Envoy", "tls": tls}),
            (
                "ModelService",
                {"name": "qwen", "namespace": "default"},
                {"endpoints": [{"selector": selector}]},
            ),
        ):
            await self._client.apply(
                {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
            )

    async def secret(self, certificate: Certificate) -> None:
        pair = {"tls.crt": certificate.chain, "tls.key": certificate.key}
        await self._client.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {"name": certificate.name, "namespace": SYSTEM_NAMESPACE},
                "data": {key: base64.b64encode(pem.encode()).decode() for key, pem in pair.items()},
            }
        )

    async def says(self, status: str, part: str) -> None:
        """Wait for the condition ``Secured``."""

        async def said() -> bool:
            gateway = await self._client.get(fleet_resources.INFERENCE_GATEWAYS, DEFAULT_NAME) or {}
            found = condition_of(gateway, "Secured")
            return found.get("status") == status and part in found.get("message", "")

        await eventually(said)

    async def is_at(self, address: str) -> None:
        """Wait until the service is published at an address."""

        async def published() -> bool:
            service = await self._client.get(fleet_resources.MODEL_SERVICES, "qwen", "default") or {}
            return bool(service.get("status", {}).get("address") == address)

        await eventually(published)


@pytest.fixture
async def fleet(client: Client, secured: Secured) -> AsyncIterator[Fleet]:
    await kinds.install(client, cluster_objects.load_gateway_api())
    for manifest in cluster_objects.build_manifests():
        await client.apply(manifest)
    yield Fleet(client, secured)
    for resource, name, namespace in (
        (fleet_resources.MODEL_SERVICES, "qwen", "default"),
        (fleet_resources.INFERENCE_GATEWAYS, DEFAULT_NAME, None),
        (resources.SECRETS, "front", SYSTEM_NAMESPACE),
    ):
        await client.delete(resource, name, namespace)


@pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning")
async def test_a_secret_becomes_the_certificate_and_a_damaged_one_changes_nothing_also_over_a_restart(
    secured: Secured, control_plane: ControlPlane, fleet: Fleet
) -> None:
    await fleet.apply("1.2")
    old, new = secured.certificate(), secured.certificate()
    async with fleet.controllers(control_plane):
        await fleet.says("False", 'Secret "front" in namespace "modelplane-system": does not exist')
        await secured.until_closed()
        assert await secured.served() == b""
        await fleet.secret(old)
        await secured.until(lambda served: served == der(old))
        await fleet.says("True", "TLS 1.2")
        await fleet.is_at(f"{secured.url}/default/qwen")
        await fleet.secret(replace(new, key=old.key))
        await fleet.says("False", "its private key is not that of its certificate")
    async with fleet.controllers(control_plane):
        await fleet.apply("1.3")
        async with asyncio.timeout(PATIENCE_S):
            while await secured.takes_tls_1_2():
                await asyncio.sleep(0.05)
        assert await secured.served() == der(old)
        await fleet.secret(new)
        await secured.until(lambda served: served == der(new))
        await fleet.says("True", "TLS 1.3")
