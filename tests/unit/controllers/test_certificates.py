"""Which certificate is served while Secrets come, change, are damaged, and go."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.inference_gateway import TLSVersion
from modelplane.controllers.gateway.named_secrets import Certificates
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.route_table import Certificate, Listener, Table, Tls
from modelplane.proxy.interface import GatewayAddress
from support.certificates import authority, server_pair

AT = GatewayAddress("192.0.2.1")
MISSING = (
    'Secret "{}" in namespace "modelplane-system": does not exist: create it, or check cert-manager\'s '
    "Certificate for this Secret"
)
KEPT = "; the previous certificate is still used"


class Bench:
    """An InferenceGateway, and the Secrets of the system's namespace."""

    def __init__(self, directory: Path) -> None:
        authority(directory)
        self._directory = directory
        self.gateway: dict[str, Any] | None = None
        self.secrets: dict[str, dict[str, Any]] = {}
        self.files: dict[str, str] = {}
        self.now = datetime.now(UTC)
        self.restart()

    def restart(self) -> None:
        self.certificates = Certificates(lambda: self.gateway, self.secrets.get, lambda: self.now)

    def asks(self, *names: str, backend: str = "Envoy", **tls: Any) -> None:
        spec = {"backend": backend, "traefik": {"version": "41.3.0"}}
        references = {"certificateRefs": [{"name": name} for name in names]}
        self.gateway = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceGateway",
            "metadata": {"name": "default", "uid": "g"},
            "spec": spec | ({"tls": references | tls} if names else {}),
        }

    def has(self, name: str, **changes: str) -> Certificate:
        """Let a Secret have a new certificate, with changes."""
        # It expires before the longest wait ends, although the clock of this bench stopped earlier.
        chain, key = server_pair(self._directory, "models.example", timedelta(minutes=50))
        data = {"tls.crt": chain, "tls.key": key} | {
            field.replace("_", "."): content for field, content in changes.items() if field != "type"
        }
        self.secrets[name] = {
            "type": changes.get("type", "kubernetes.io/tls"),
            "metadata": {"name": name},
            "data": {field: base64.b64encode(content.encode()).decode() for field, content in data.items()},
        }
        return Certificate(name, chain, key)

    async def served(self) -> Tls | None:
        """Return what the gateway serves, and write it."""
        tls_files = [path for path in self.files if path.startswith("tls/")]
        await self.certificates.update(lambda path: self.files.get(path, ""), lambda: tls_files)
        tls = self.certificates.tls
        self.files = render_files(Table((Listener("front-door", "127.0.0.1", 8080, tls=tls),)))
        return tls

    @property
    def problem(self) -> str:
        return self.certificates.announced(AT).tls_problem


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_without_tls_nothing_is_read(bench: Bench) -> None:
    bench.has("front")
    bench.asks()
    assert await bench.served() is None
    assert bench.certificates.announced(AT) == AT
    assert not bench.certificates.uses(bench.secrets["front"])


async def test_a_gateway_in_front_has_the_tls(bench: Bench) -> None:
    bench.has("front")
    bench.asks("front", backend="Traefik")
    assert await bench.served() is None
    assert bench.certificates.announced(AT) == AT


async def test_each_secret_is_a_certificate_in_the_order_of_the_gateway(bench: Bench) -> None:
    a, b = bench.has("a"), bench.has("b")
    bench.asks("b", "a", minimumVersion="1.3")
    assert await bench.served() == Tls((b, a), TLSVersion.V1_3)
    assert bench.certificates.announced(AT) == AT
    assert bench.certificates.uses(bench.secrets["a"])


async def test_a_certificate_that_never_was_there_closes_the_gateway(bench: Bench) -> None:
    bench.asks("front")
    assert await bench.served() == Tls(())
    problem = f"the gateway has no certificate, so it refuses every connection: {MISSING.format('front')}"
    assert bench.certificates.announced(AT) == GatewayAddress(problem=problem, tls_problem=problem)


async def test_of_several_certificates_those_that_are_there_are_served(bench: Bench) -> None:
    there = bench.has("b")
    bench.asks("a", "b")
    assert await bench.served() == Tls((there,))
    assert bench.certificates.announced(AT) == GatewayAddress(AT.address, tls_problem=MISSING.format("a"))


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "after a restart"])
@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        ({"tls_key": "damaged"}, "private key without a password in PEM"),
        ({"tls_crt": ""}, "private key without a password in PEM"),
        ({"tls_crt": "\udcff"}, "private key without a password in PEM"),
        ({"type": "Opaque"}, "its type is Opaque: use a Secret of type kubernetes.io/tls"),
        (None, "does not exist"),
    ],
    ids=["key", "no certificate", "not text", "type", "deleted"],
)
async def test_a_secret_that_is_of_no_use_keeps_the_former_certificate(
    bench: Bench, damage: dict[str, str] | None, cause: str, restarts: bool
) -> None:
    former = bench.has("front")
    bench.asks("front")
    await bench.served()
    if damage is None:
        del bench.secrets["front"]
    elif damage.get("tls_crt") == "\udcff":
        bench.has("front")
        bench.secrets["front"]["data"]["tls.crt"] = base64.b64encode(b"\xff").decode()
    else:
        bench.has("front", **damage)
    if restarts:
        bench.restart()
    assert await bench.served() == Tls((former,))
    assert cause in bench.problem
    assert bench.problem.endswith(KEPT)
    renewed = bench.has("front")
    assert await bench.served() == Tls((renewed,))
    assert bench.problem == ""


async def test_a_gateway_that_is_gone_or_cannot_be_read_changes_nothing(bench: Bench) -> None:
    served = bench.has("front")
    bench.asks("front")
    await bench.served()
    bench.asks("front", minimumVersion="1.4")
    assert await bench.served() == Tls((served,))
    bench.gateway = None
    assert await bench.served() == Tls((served,))


async def test_a_gateway_that_is_gone_over_a_restart_keeps_its_certificates(
    bench: Bench, tmp_path: Path
) -> None:
    served = bench.has("front")
    bench.asks("front")
    await bench.served()
    again = Bench(tmp_path)
    again.files = bench.files
    assert await again.served() == Tls((served,))


async def test_a_certificate_is_checked_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []

    def check(chain: bytes, _key: bytes) -> None:
        checked.append(chain)

    monkeypatch.setattr("modelplane.host.certificates.check_pair", check)
    bench.asks("front")
    for _ in range(2):
        bench.has("front")
        await bench.served()
        await bench.served()
    assert len(checked) == len(set(checked)) == 2


async def test_a_certificate_that_expires_is_served_all_the_same_and_reported_then(bench: Bench) -> None:
    assert bench.certificates.look_again_s is None
    served = bench.has("front")
    bench.asks("front")
    await bench.served()
    assert bench.problem == ""
    assert list(bench.certificates.expiries) == ["front"]
    left = bench.certificates.look_again_s
    assert left is not None
    bench.now += timedelta(seconds=left)
    assert await bench.served() == Tls((served,))
    assert bench.certificates.look_again_s == 3600
    assert bench.problem.startswith(
        'Secret "front" in namespace "modelplane-system": the certificate expired at 20'
    )
    bench.has("front")
    assert await bench.served() != Tls((served,))
