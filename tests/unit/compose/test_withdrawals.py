"""Time at which a deployment is composed again, to withdraw a replica before its node is taken back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.api.fields.cluster.devices import DevicePrice, DevicePricing
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Request
from modelplane.compose.deployment.deployment_facts import DeploymentFacts, DeploymentRequest
from modelplane.compose.deployment.model_deployment import find_next_withdrawal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
API = {"apiVersion": "modelplane.ai/v1alpha1"}


def replica(name: str, leaves_in_s: int | None) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}}
    member = {"role": "Standalone", "nodePoolName": "a", "template": template}
    claim = {"name": "gpu", "deviceClassName": "gpu"}
    spec = {
        "clusterName": "east",
        "engines": [{"name": "main", "members": [{**member, "deviceRequests": [claim]}]}],
    }
    status: dict[str, Any] = {}
    if leaves_in_s is not None:
        deadline = (NOW + timedelta(seconds=leaves_in_s)).isoformat()
        status["eviction"] = {"node": "n1", "cause": "taint x", "deadline": deadline}
    metadata = {"name": name, "namespace": "ml", "uid": name}
    return {**API, "kind": "ModelReplica", "metadata": metadata, "spec": spec, "status": status}


def request(*leave_in_s: int | None, now: datetime | None = NOW) -> DeploymentRequest:
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    spec = {"replicas": 1, "engines": [{"name": "main", "members": [member]}]}
    owner = {**API, "kind": "ModelDeployment", "metadata": {"name": "d", "namespace": "ml"}, "spec": spec}
    observed = {f"replica-{at}": replica(f"r{at}", each) for at, each in enumerate(leave_in_s)}
    return Request(decode_as(ModelDeployment, owner), observed, {}, DeploymentFacts(), now)


@pytest.mark.parametrize(
    ("leave_in_s", "others", "expected"),
    [
        pytest.param((None,), None, None, id="no notice"),
        pytest.param((None,), 5.0, 5.0, id="only others"),
        pytest.param((120,), None, 60.1, id="a minute before the deadline"),
        pytest.param((120, 90), 100.0, 30.1, id="the first of them"),
        pytest.param((120,), 5.0, 5.0, id="others are sooner"),
        pytest.param((60,), None, 0.1, id="now"),
        pytest.param((30,), None, None, id="it is decided already"),
    ],
)
def test_it_is_composed_again_a_minute_before_a_node_goes(
    leave_in_s: tuple[int | None, ...], others: float | None, expected: float | None
) -> None:
    assert find_next_withdrawal(request(*leave_in_s), others) == (expected and pytest.approx(expected))


def test_without_a_clock_nothing_is_withdrawn() -> None:
    assert find_next_withdrawal(request(120, now=None), None) is None


def test_a_spot_pool_without_a_price_of_its_own_costs_the_other_one() -> None:
    prices = DevicePricing(
        currency="USD",
        devices=(DevicePrice(name="a", per_hour="3", spot_per_hour="1"), DevicePrice(name="b", per_hour="2")),
    )
    found = [
        (prices.find_price_per_hour(each), prices.find_price_per_hour(each, spot=True))
        for each in ("a", "b", "c")
    ]
    assert found == [(3 * 10**9, 10**9), (2 * 10**9, 2 * 10**9), (None, None)]
