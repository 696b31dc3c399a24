"""Mutual TLS in the controllers: what each cluster gets, and who is told."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelplane.api.fields.cluster.mutual_tls_settings import MutualTLSPhase
from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.gateway.gateway_certificates import Certificates, Issued
from modelplane.controllers.gateway.mutual_tls_rollout import MutualTls
from modelplane.gateway.mutual_tls import Identity, Link, Pair
from modelplane.kube import errors

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAIR = Pair("CERTIFICATE", "KEY")
ISSUED = Issued(Identity(PAIR, "CA"), {"east": PAIR}, "CA")


class Copies(dict[str, dict[str, Any]]):
    """An informer's objects."""

    def __iter__(self) -> Any:
        return iter(self.values())

    def get(self, name: str, _namespace: str = "") -> Any:  # type: ignore[override]  # as informers have it
        return super().get(name)


def cluster(*, wanted: bool = True, phase: str = "") -> dict[str, Any]:
    spec = {"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "a", "key": "b"}}}}
    gateway = {"address": "192.0.2.1", "mutualTLS": {"phase": phase}} if phase else None
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east", "uid": "uid-east"},
        "spec": {**spec, **({"gateway": {"mutualTLS": {}}} if wanted else {})},
        "status": {"gateway": gateway} if gateway else {},
    }


class Bench:
    def __init__(self, *clusters: dict[str, Any]) -> None:
        self.issued: Issued | Exception = ISSUED
        self.found: dict[str, tuple[dict[str, Any], ...] | Unknown] = {"Gateway": (_gateway(),)}
        self.told: list[str] = []
        self.informers: dict[str, Any] = {
            "InferenceCluster": Copies({each["metadata"]["name"]: each for each in clusters}),
            "ModelReplica": Copies(),
            "ModelEndpoint": Copies(),
        }
        certificates = cast("Certificates", SimpleNamespace(update=self._update, last=ISSUED))
        self.loop = MutualTls(
            self.informers,
            self._find,
            certificates,
            former=lambda _path: "",
            changed=self.told.append,
            now=lambda: NOW,
        )

    async def _update(self, _places: object, _now: datetime) -> Issued:
        if isinstance(self.issued, Exception):
            raise self.issued
        return self.issued

    def _find(self, requirement: Requirement) -> tuple[dict[str, Any], ...] | Unknown:
        return self.found.get(requirement.kind, ())

    async def phase(self) -> MutualTLSPhase:
        await self.loop.look()
        link = self.loop.of("east")
        assert isinstance(link, Link)
        return link.rollout.phase


def _gateway(*, ours: bool = True) -> dict[str, Any]:
    labels = {"modelplane.ai/resource": "gateway"} if ours else {}
    return {"metadata": {"name": "inference-gateway", "labels": labels}, "spec": {"listeners": []}}


async def test_a_cluster_without_the_setting_is_plain_at_once() -> None:
    assert Bench(cluster(wanted=False)).loop.of("east") == Link()


async def test_a_cluster_that_is_gone_has_no_link() -> None:
    assert Bench().loop.of("east") is None


async def test_before_the_first_look_a_cluster_with_the_setting_is_unknown() -> None:
    assert isinstance(Bench(cluster()).loop.of("east"), Unknown)


async def test_the_first_step_tells_the_gateway_and_the_cluster_once() -> None:
    bench = Bench(cluster())
    assert await bench.phase() is MutualTLSPhase.OFFERED
    await bench.loop.look()
    assert bench.told == ["", "east"]
    assert bench.loop.identity() == ISSUED.identity


async def test_a_gateway_of_others_is_left_alone() -> None:
    bench = Bench(cluster())
    bench.found["Gateway"] = (_gateway(ours=False),)
    assert await bench.phase() is MutualTLSPhase.PLAIN


async def test_a_cluster_that_cannot_be_read_stays_in_its_phase() -> None:
    bench = Bench(cluster(phase="Used"))
    bench.found["Gateway"] = Unknown("it does not answer")
    assert await bench.phase() is MutualTLSPhase.USED


async def test_a_lost_certificate_of_a_cluster_in_use_is_unknown_and_changes_nothing() -> None:
    bench = Bench(cluster(phase="Required"))
    bench.issued = Issued(ISSUED.identity, {}, "CA", "no authority")
    await bench.loop.look()
    assert bench.loop.of("east") == Unknown("no authority")
    assert bench.loop.identity() == ISSUED.identity


async def test_a_control_plane_that_refuses_writes_keeps_the_certificates() -> None:
    bench = Bench(cluster(phase="Required"))
    bench.issued = errors.KubernetesError("forbidden")
    await bench.loop.look()
    link = bench.loop.of("east")
    assert isinstance(link, Link)
    assert (link.certificate, link.problem) == (PAIR, "cannot write certificates: forbidden")


@pytest.mark.parametrize(
    ("controller", "waits_for"),
    [
        pytest.param("of-replica", "endpoints of replicas use it", id="that of a replica"),
        pytest.param("of-another", "for requests in progress", id="one with its name, made by a tenant"),
    ],
)
async def test_an_endpoint_with_plain_http_keeps_it_open(controller: str, waits_for: str) -> None:
    bench = Bench(cluster(phase="Used"))
    metadata = {"name": "qwen-1", "namespace": "ml", "uid": "of-replica"}
    bench.informers["ModelReplica"]["qwen-1"] = {"metadata": metadata, "spec": {"clusterName": "east"}}
    owners = [{"uid": controller, "controller": True}]
    bench.informers["ModelEndpoint"]["qwen-1"] = {
        "metadata": {**metadata, "ownerReferences": owners},
        "spec": {"url": "http://192.0.2.1/"},
    }
    await bench.loop.look()
    link = bench.loop.of("east")
    assert isinstance(link, Link)
    assert link.waiting.startswith("the gateway still accepts plain HTTP")
    assert waits_for in link.waiting
