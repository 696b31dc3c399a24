"""Two real Envoys: the fleet's, and a cluster's whose listener requires the certificate of the fleet's."""

import asyncio
import json
import ssl
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modelplane.controllers.gateway import certificate_issuing
from modelplane.gateway.envoy import certificate_files as envoy_mutual_tls
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import ENVOY, LISTENERS, WITH_MODULE
from modelplane.gateway.envoy.listeners import MOST_STREAMS
from modelplane.gateway.mutual_tls import CLIENT_NAME, Identity, Pair, build_server_name
from modelplane.gateway.route_table import Backend, Listener, Route, Table
from modelplane.proxy import envoy_directory as envoy_files
from support.envoys import EVENTS, LOCAL, Gateway, engines, running_envoy, service
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

UID = "0e6ab3d2-6c35-4a8e-9a64-0d9c5a3a7c11"
NAME = build_server_name(UID)


def _authority() -> Pair:
    return certificate_issuing.authority(datetime.now(UTC))


def _pair(authority: Pair, name: str, *, serves: bool) -> Pair:
    return certificate_issuing.issued(authority, name, serves=serves, now=datetime.now(UTC))


def _requiring(chain: dict[str, Any], server: Pair, authorities: str) -> dict[str, Any]:
    """Return a filter chain as a cluster's gateway has it: only the fleet's gateway may connect."""
    inline = {"certificate_chain": server.chain, "private_key": server.key}
    context = {
        "@type": f"{ENVOY}extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificates": [{part: {"inline_string": pem} for part, pem in inline.items()}],
            "validation_context": {
                "trusted_ca": {"inline_string": authorities},
                "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": CLIENT_NAME}}],
            },
        },
    }
    return chain | {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


@dataclass
class Pairing:
    """The fleet's Envoy in front of a cluster's."""

    fleet: Gateway
    cluster: Gateway
    engine_port: int

    def close_to_others(self, server: Pair, authorities: str) -> None:
        """Let the cluster accept only the fleet's gateway."""
        routes = (Route("ml/qwen-1", "/ml/qwen-1/", (self._engine(),)),)
        listener = Listener("front-door", "127.0.0.1", self.cluster.port, routes, LOCAL)
        written = render_files(Table((listener,)))
        for path in (LISTENERS, WITH_MODULE):
            resources = json.loads(written[path])
            (served,) = resources["resources"]
            served["filter_chains"] = [_requiring(served["filter_chains"][0], server, authorities)]
            written[path] = json.dumps(resources)
        envoy_files.write(self.cluster.directory, written)

    def _engine(self) -> Backend:
        return Backend("ml/engine", (("127.0.0.1", self.engine_port),), prefix="/")

    def identify(self, identity: Identity | None) -> None:
        """Give the fleet's gateway an identity."""
        backend = Backend(
            "ml/qwen-1",
            (("127.0.0.1", self.cluster.port),),
            prefix="/ml/qwen-1/",
            tls=True,
            server_name=NAME,
        )
        listener = Listener("front-door", "127.0.0.1", self.fleet.port, (service(backend),), LOCAL)
        envoy_files.write(self.fleet.directory, render_files(Table((listener,), identity)))

    async def until_read(self, times: int) -> None:
        """Wait until the fleet's gateway has read its certificate so often."""
        async with asyncio.timeout(PATIENCE_S):
            while self.fleet.stat("sds.gateway-identity.update_success") < times:
                await asyncio.sleep(0.02)

    async def until_serves(self, authority: Pair) -> None:
        """Wait until the cluster has a certificate of an authority."""
        context = ssl.create_default_context(cadata=authority.chain)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection(
                        "127.0.0.1", self.cluster.port, ssl=context, server_hostname=NAME
                    )
                except (ssl.SSLError, ConnectionError):
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    async def answer(self) -> tuple[int, str]:
        async with self.fleet.client.get(self.fleet.url("/ml/qwen/x")) as response:
            return response.status, await response.text()

    async def until(self, status: int, holds: str = "") -> str:
        """Return the first answer with this status and this text."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found, text = await self.answer()
                if found == status and holds in text:
                    return text
                await asyncio.sleep(0.02)


@pytest.fixture
async def pairing(tmp_path: Path) -> AsyncIterator[Pairing]:
    for name in ("fleet", "cluster"):
        (tmp_path / name).mkdir()
    async with (
        engines("a") as (engine,),
        running_envoy(tmp_path / "cluster") as cluster,
        running_envoy(tmp_path / "fleet") as fleet,
    ):
        yield Pairing(fleet, cluster, engine.port)


def _identity(authority: Pair, *, trusts: str = "", serves: bool = False) -> Identity:
    return Identity(_pair(authority, CLIENT_NAME, serves=serves), trusts or authority.chain)


async def test_requests_pass_with_the_identity_only_and_key_files_are_private(pairing: Pairing) -> None:
    authority = _authority()
    pairing.close_to_others(_pair(authority, NAME, serves=True), authority.chain)
    pairing.identify(_identity(authority))
    assert json.loads(await pairing.until(200))["by"] == "a"

    without_certificate = ssl.create_default_context(cadata=authority.chain)
    answers = [await _answer(pairing.cluster.port, each) for each in (None, without_certificate)]
    assert answers == [b"", b""]
    modes = {
        path.name: stat.S_IMODE((pairing.fleet.directory / path).stat().st_mode)
        for path in map(Path, (envoy_mutual_tls.IDENTITY, envoy_mutual_tls.AUTHORITIES))
    }
    assert modes == {"gateway-identity.json": 0o600, "cluster-authorities.json": 0o600}


async def test_without_an_identity_the_gateway_sends_no_request(pairing: Pairing) -> None:
    authority = _authority()
    pairing.close_to_others(_pair(authority, NAME, serves=True), authority.chain)
    pairing.identify(None)
    assert "no healthy upstream" in await pairing.until(503, "no healthy upstream")


@pytest.mark.parametrize(
    ("server_by", "client_serves", "cluster_trusts", "why"),
    [
        pytest.param("other", False, "own", "CERTIFICATE_VERIFY_FAILED", id="a server of another authority"),
        pytest.param("own", False, "other", "ALERT_UNKNOWN_CA", id="a cluster that trusts another authority"),
        pytest.param("own", True, "own", "ALERT", id="the certificate of a server, as that of a client"),
    ],
)
async def test_a_wrong_certificate_is_a_503_with_its_reason(
    pairing: Pairing, server_by: str, client_serves: bool, cluster_trusts: str, why: str
) -> None:
    authorities = {"own": _authority(), "other": _authority()}
    server = _pair(authorities[server_by], NAME, serves=True)
    pairing.close_to_others(server, authorities[cluster_trusts].chain)
    pairing.identify(_identity(authorities["own"], serves=client_serves))
    assert why in await pairing.until(503, why)


async def test_renewal_and_a_new_authority_end_no_stream(pairing: Pairing) -> None:
    former, new = _authority(), _authority()
    both = former.chain + new.chain
    pairing.close_to_others(_pair(former, NAME, serves=True), both)
    pairing.identify(_identity(former))
    await pairing.until(200)

    first = pairing.fleet.events("/ml/qwen/x?stream")
    begun = [await anext(first)]
    pairing.identify(_identity(new, trusts=both))
    await pairing.until_read(2)
    pairing.close_to_others(_pair(new, NAME, serves=True), new.chain)
    await pairing.until_serves(new)
    pairing.identify(_identity(new))
    await pairing.until_read(3)
    # More at a time than one connection carries, so that new ones are opened.
    streams = [
        _all(first),
        *(_all(pairing.fleet.events("/ml/qwen/x?stream")) for _ in range(MOST_STREAMS + 1)),
    ]
    earlier, *later = await asyncio.gather(*streams)
    assert len(begun + earlier) == EVENTS
    assert [len(each) for each in later] == [EVENTS] * len(later)


async def _all(events: AsyncIterator[str]) -> list[str]:
    return [event async for event in events]


async def _answer(port: int, context: ssl.SSLContext | None) -> bytes:
    """Return what the cluster answers to a client without a certificate; empty if it ends the connection."""
    name = NAME if context else None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        writer.write(b"GET /ml/qwen-1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    except (ssl.SSLError, ConnectionError):
        return b""
    return answer
