"""Who is admitted, as the objects of the control plane say it."""

from typing import Any

import pytest

from modelplane.api.fields.requests.key_limits import RateLimitService
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Blocked
from modelplane.controllers.fleet_resources import resource_of_kind
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.controllers.gateway.gateway_admission import Admission
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile
from modelplane.gateway.route_table import Front
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer

CLOSED = {"backend": "Envoy", "authentication": "APIKey", "keyGrants": [{"namespace": "ml"}]}
A, B = "aa" * 32, "bb" * 32


class Bench:
    """An admission with copies that a test fills."""

    def __init__(self, client: Client, former: str = "") -> None:
        self.gateways = Informer(client, resource_of_kind(InferenceGateway))
        self.keys = Informer(client, resource_of_kind(ModelKey))
        self.changed: list[set[str]] = []
        self.version = 0
        self.admission = Admission(
            self.gateways,
            self.keys,
            former=lambda _path: former,
            changed=lambda keys: self.changed.append(set(keys)),
            budgets=Budgets(None, changed=lambda _keys: None, touch=lambda: None),
        )

    def has(self, informer: Informer, name: str, spec: Any, age: int = 1, generation: int = 1) -> None:
        self.version += 1
        where = {"namespace": "ml"} if informer is self.keys else {}
        metadata = {
            "name": name,
            "uid": name,
            "resourceVersion": str(self.version),
            "generation": generation,
            "creationTimestamp": f"2026-01-01T00:00:{age:02}Z",
            **where,
        }
        informer.remember({"kind": informer.resource.kind, "metadata": metadata, "spec": spec})

    def problem(self, name: str, generation: int = 1) -> str | None:
        metadata = {"name": name, "namespace": "ml", "uid": name, "generation": generation}
        return self.admission.problem(decode_as(ModelKey, {"metadata": metadata, "spec": _key(A)}))

    async def in_force(self) -> list[str]:
        front = await self.admission.read()
        assert isinstance(front, Front)
        assert front.keys is not None
        return [f"{each.id} {each.sha256[:2]}" for each in front.keys.keys]


@pytest.fixture
def bench(client: Client) -> Bench:
    return Bench(client)


def _key(*hashes: str) -> dict[str, Any]:
    return {"hashes": [{"sha256": each} for each in hashes]}


async def test_without_the_field_and_with_none_every_request_is_admitted(bench: Bench) -> None:
    for spec in ({"backend": "Envoy"}, {"backend": "Envoy", "authentication": "None"}):
        bench.has(bench.gateways, "default", spec)
        assert await bench.admission.read() == Front(keys=None)


@pytest.mark.parametrize("authentication", ["None", "APIKey"])
async def test_the_proxies_in_front_are_those_of_the_gateway(bench: Bench, authentication: str) -> None:
    spec = {"backend": "Envoy", "authentication": authentication, "numTrustedHops": 2}
    bench.has(bench.gateways, "default", spec)
    front = await bench.admission.read()
    assert isinstance(front, Front)
    assert front.trusted_hops == 2


async def test_the_rate_limit_service_is_that_of_the_gateway(bench: Bench) -> None:
    bench.has(bench.gateways, "default", CLOSED | {"rateLimitService": {"host": "ratelimit.example"}})
    front = await bench.admission.read()
    assert isinstance(front, Front)
    assert front.rate_limits == RateLimitService(host="ratelimit.example")


async def test_without_a_gateway_a_fleet_with_keys_admits_none(bench: Bench) -> None:
    assert await bench.admission.read() == Front(keys=None)
    bench.has(bench.keys, "ci", _key(A))
    assert await bench.admission.read() == Front(keys=KeyFile())


async def test_a_gateway_that_cannot_be_read_changes_nothing(bench: Bench) -> None:
    bench.has(bench.gateways, "default", {"backend": "Envoy", "authentication": "Other"})
    assert isinstance(await bench.admission.read(), Blocked)


async def test_keys_are_told_what_the_gateway_has_of_them_once_it_has_it(bench: Bench) -> None:
    bench.has(bench.gateways, "default", CLOSED)
    bench.has(bench.keys, "old", _key(A))
    assert await bench.in_force() == ["ml/old aa"]
    assert bench.problem("old") is None
    bench.admission.written()
    assert bench.problem("old") == ""
    bench.has(bench.keys, "new", _key(A, B), age=2)
    assert await bench.in_force() == ["ml/new bb", "ml/old aa"]
    bench.admission.written()
    assert bench.problem("new") == "hash aaaaaaaa belongs to ModelKey ml/old: remove it from one of them"
    assert bench.problem("new", generation=2) is None
    assert bench.problem("old") == ""
    bench.has(bench.keys, "new", _key(B), age=2, generation=2)
    await bench.admission.read()
    bench.admission.written()
    assert bench.problem("new", generation=2) == ""
    await bench.admission.read()
    bench.admission.written()
    assert bench.changed == [{"ml/old"}, {"ml/new"}, {"ml/new"}]


async def test_after_a_restart_a_key_that_cannot_be_read_keeps_what_was_published(
    bench: Bench, client: Client
) -> None:
    bench.has(bench.gateways, "default", CLOSED)
    bench.has(bench.keys, "ci", _key(A))
    front = await bench.admission.read()
    assert isinstance(front, Front)
    assert front.keys
    again = Bench(client, front.keys.encode().decode())
    again.has(again.gateways, "default", CLOSED)
    again.has(again.keys, "ci", {"hashes": [{"sha256": 7}]})
    assert await again.in_force() == ["ml/ci aa"]
    again.admission.written()
    assert "the previous state remains active" in (again.problem("ci") or "")


@pytest.mark.parametrize("former", ["", "{"])
async def test_a_key_that_was_never_read_opens_nothing(client: Client, former: str) -> None:
    bench = Bench(client, former)
    bench.has(bench.gateways, "default", CLOSED)
    bench.has(bench.keys, "ci", {"hashes": [{"sha256": 7}]})
    assert await bench.in_force() == []


async def test_keys_that_were_deleted_while_no_controller_ran_are_revoked(
    bench: Bench, client: Client
) -> None:
    bench.has(bench.gateways, "default", CLOSED)
    bench.has(bench.keys, "ci", _key(A))
    front = await bench.admission.read()
    assert isinstance(front, Front)
    assert front.keys
    again = Bench(client, front.keys.encode().decode())
    again.has(again.gateways, "default", CLOSED)
    assert await again.in_force() == []


async def test_a_gateway_that_is_gone_over_a_restart_stays_closed_with_the_keys_that_it_had(
    client: Client,
) -> None:
    entry = KeyEntry(sha256=A, id="ml/gone", namespace="ml", services=("ml/*",))
    published = KeyFile(keys=(entry,))
    bench = Bench(client, published.encode().decode())
    assert await bench.admission.read() == Front(keys=published)
    damaged = Bench(client, "{")
    assert await damaged.admission.read() == Front(keys=KeyFile())


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "unreadable"])
async def test_a_key_is_revoked_also_while_the_gateway_is_not_known(bench: Bench, gone: bool) -> None:
    bench.has(bench.gateways, "default", CLOSED)
    bench.has(bench.keys, "a", _key(A))
    assert await bench.in_force() == ["ml/a aa"]
    if gone:
        bench.gateways._objects.clear()
    else:
        bench.has(bench.gateways, "default", {"backend": "Unknown"})
    bench.keys._objects.clear()
    assert await bench.in_force() == []
