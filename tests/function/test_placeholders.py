"""A replica's endpoint is there from the first answer on, and gets requests only while the replica serves.

Each change of an owner's children costs it two updates, so their list stays as it is.
"""

from collections.abc import Callable

import pytest

from support.crossplane.fleet import Fleet
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import DEPLOYMENT, SERVICE, model_deployment, model_service
from support.crossplane.objects import Kind, key_of
from support.crossplane.scenarios import prepared, with_clusters

_STARTS_S = 30.0


@pytest.fixture
def starting() -> Fleet:
    """Two replicas whose engines start, and a service that selects them."""
    fleet = with_clusters(prepared(by_its_own_clock()), "a", "b", nodes=1)
    for cluster in fleet.clusters.values():
        cluster.starts_s = _STARTS_S
    fleet.apply(model_deployment(replicas=2), model_service())
    fleet.run_for(_STARTS_S / 2)
    return fleet


def backends(fleet: Fleet) -> set[str]:
    """Return the backends that the service's routes lead to."""
    routes = fleet.api.of(Kind("gateway.networking.k8s.io", "HTTPRoute"))
    rules = [rule for route in routes for rule in route["spec"]["rules"]]
    return {each["name"] for rule in rules for each in rule.get("backendRefs", ())}


def endpoints(fleet: Fleet) -> set[str]:
    """Return the uids of all endpoints."""
    return {fleet.get("ModelEndpoint", name)["metadata"]["uid"] for name in fleet.named("ModelEndpoint")}


def children(fleet: Fleet) -> set[str]:
    """Return the uids of all children of replicas."""
    owned = [fleet.children("ModelReplica", name).values() for name in fleet.named("ModelReplica")]
    return {child["metadata"]["uid"] for each in owned for child in each}


def test_it_gets_requests_only_while_its_replica_serves_and_the_children_stay_the_same(
    starting: Fleet,
) -> None:
    fleet, before = starting, children(starting)
    assert len(endpoints(fleet)) == 2
    assert backends(fleet) == set()
    assert [name for name in fleet.named("ModelEndpoint") if fleet.is_true("ModelEndpoint", name)] == []
    assert not fleet.is_true("ModelService", SERVICE)

    fleet.run_until(lambda: len(backends(fleet)) == 2, within=_STARTS_S + 30)
    assert all(fleet.is_true("ModelEndpoint", name) for name in fleet.named("ModelEndpoint"))

    lost = fleet.clusters["a"]
    [engine] = lost.api.of(Kind("apps", "Deployment"))
    lost.stop(key_of(engine))
    fleet.run_until(lambda: len(backends(fleet)) == 1, within=30)
    lost.run_all()
    fleet.run_until(lambda: len(backends(fleet)) == 2, within=30)
    assert children(fleet) == before


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda fleet: fleet.edit("ModelDeployment", DEPLOYMENT, replicas=0), id="scaled down"),
        pytest.param(lambda fleet: fleet.delete("ModelDeployment", DEPLOYMENT), id="deleted"),
    ],
)
def test_it_goes_with_a_replica_that_never_served(starting: Fleet, leave: Callable[[Fleet], None]) -> None:
    leave(starting)
    starting.run_until(lambda: not starting.named("ModelReplica"), within=60)
    starting.run_for(5)
    assert starting.named("ModelEndpoint") == []
