"""Certificates of gateways: issued, renewed, taken over, and kept when something is wrong."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from modelplane.compose.composition import Unknown
from modelplane.compose.serving_stack.cluster_mutual_tls import SECRET
from modelplane.controllers.gateway import certificate_issuing
from modelplane.controllers.gateway.gateway_certificates import (
    AUTHORITY,
    CLIENT,
    Certificates,
    Issued,
    Issuing,
    Place,
)
from modelplane.gateway.mutual_tls import CLIENT_NAME, Pair, build_server_name
from modelplane.host import certificate_authority
from modelplane.kube.client import Client

NAME = build_server_name("uid-east")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Bench:
    """The Secrets of the system's namespace, and one cluster with the Secret of its gateway."""

    def __init__(self, library: Issuing | None = certificate_issuing) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        self.on_cluster: tuple[dict[str, Any], ...] | Unknown = ()
        self.now = BEGIN
        self.certificates = Certificates(
            cast("Client", self), self.secrets.get, self._remember, lambda: library
        )

    def _remember(self, secret: Mapping[str, Any]) -> None:
        self.secrets[secret["metadata"]["name"]] = dict(secret)

    async def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return manifest

    create = apply

    async def look(self) -> Issued:
        place = Place("east", "uid-east", NAME, self.on_cluster, checks=True)
        return await self.certificates.update([place], self.now)

    async def delivered(self) -> Issued:
        """Look, and let the cluster have what was issued."""
        issued = await self.look()
        data = {**_content(issued.servers["east"]), "ca.crt": issued.authorities}
        self.on_cluster = (_secret(SECRET, data),)
        return issued

    def brings(self, pair: Pair) -> None:
        self.secrets[AUTHORITY] = _secret(AUTHORITY, _content(pair))


def _content(pair: Pair) -> dict[str, str]:
    return {"tls.crt": pair.chain, "tls.key": pair.key}


def _secret(name: str, content: Mapping[str, str]) -> dict[str, Any]:
    data = {key: base64.b64encode(pem.encode()).decode() for key, pem in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def _expires(pair: Pair, name: str = "") -> datetime:
    validity = certificate_issuing.validity(pair, name)
    assert validity
    return validity.ends


async def test_without_anything_an_authority_and_both_certificates_are_issued() -> None:
    bench = Bench()
    issued = await bench.look()
    assert issued.identity
    assert _expires(issued.identity.certificate, CLIENT_NAME) == BEGIN + certificate_issuing.LIFETIME
    assert _expires(issued.servers["east"], NAME) == BEGIN + certificate_issuing.LIFETIME
    assert certificate_issuing.issued_by(issued.servers["east"].chain, issued.authorities)
    assert {each["type"] for each in bench.secrets.values()} == {"kubernetes.io/tls"}


async def test_what_is_valid_is_not_issued_again() -> None:
    bench = Bench()
    first = await bench.delivered()
    bench.now += timedelta(days=59)
    assert await bench.look() == first


async def test_both_certificates_are_renewed_in_their_last_third() -> None:
    bench = Bench()
    first = await bench.delivered()
    bench.now += timedelta(days=60)
    second = await bench.look()
    assert second.authorities == first.authorities
    assert second.identity
    assert first.identity
    assert _expires(second.identity.certificate) == bench.now + certificate_issuing.LIFETIME
    assert _expires(second.servers["east"]) == bench.now + certificate_issuing.LIFETIME


async def test_a_damaged_certificate_is_issued_again() -> None:
    bench = Bench()
    first = await bench.delivered()
    [name] = bench.secrets.keys() - {AUTHORITY, CLIENT}
    bench.secrets[name]["data"]["tls.key"] = base64.b64encode(b"no key").decode()
    second = await bench.look()
    assert _expires(second.servers["east"], NAME)
    assert second.servers != first.servers


async def test_a_new_authority_is_trusted_by_both_sides_before_it_signs() -> None:
    bench = Bench()
    first = await bench.delivered()
    bench.brings(certificate_issuing.authority(BEGIN))
    overlap = await bench.look()
    new, former = certificate_issuing.parts(overlap.authorities)
    assert former == certificate_issuing.parts(first.authorities)[0]
    assert overlap.identity
    assert first.identity
    assert overlap.identity.certificate == first.identity.certificate, "the cluster does not trust it yet"
    assert overlap.servers == first.servers, "the fleet's gateway does not trust it yet"

    signed = await bench.delivered()
    assert certificate_issuing.issued_by(signed.servers["east"].chain, new)
    signed = await bench.delivered()
    assert signed.identity
    assert certificate_issuing.issued_by(signed.identity.certificate.chain, new)
    await bench.delivered()
    assert (await bench.look()).authorities == new, "no certificate of the former authority is left"


async def test_a_silent_cluster_keeps_the_former_authority_trusted() -> None:
    bench = Bench()
    first = await bench.delivered()
    bench.brings(certificate_issuing.authority(BEGIN))
    bench.on_cluster = Unknown("it does not answer")
    for _ in range(3):
        issued = await bench.look()
    assert certificate_issuing.parts(first.authorities)[0] in certificate_issuing.parts(issued.authorities)
    assert issued.identity
    assert first.identity
    assert issued.identity.certificate == first.identity.certificate


async def test_an_authority_that_is_none_changes_nothing() -> None:
    bench = Bench()
    first = await bench.delivered()
    assert first.identity
    bench.brings(first.identity.certificate)
    broken = await bench.look()
    assert (broken.identity, broken.servers) == (first.identity, first.servers)
    assert broken.problem == (
        'cannot issue certificates: Secret "modelplane-gateway-authority" in namespace "modelplane-system": '
        "the certificate is not a CA certificate (basicConstraints CA): correct it, or delete it to get "
        "a new authority"
    )


async def test_an_expired_authority_changes_nothing() -> None:
    bench = Bench()
    bench.brings(certificate_issuing.authority(BEGIN))
    first = await bench.delivered()
    bench.now += certificate_authority.LIFETIME
    broken = await bench.look()
    assert (broken.identity, broken.servers) == (first.identity, first.servers)
    assert "the certificate expired at 2035-12-30T00:00:00Z" in broken.problem


async def test_an_authority_of_the_platform_is_never_written() -> None:
    bench = Bench()
    brought = certificate_issuing.authority(BEGIN)
    bench.brings(brought)
    bench.now += timedelta(days=3000)
    await bench.look()
    assert bench.secrets[AUTHORITY] == _secret(AUTHORITY, _content(brought))


async def test_without_the_library_what_is_in_force_stays() -> None:
    bench, without = Bench(), Bench(None)
    first = await bench.delivered()
    without.secrets.update(bench.secrets)
    kept = await without.look()
    assert (kept.identity, kept.servers) == (first.identity, first.servers)
    assert "install the controllers with the extra [mutual-tls]" in kept.problem
