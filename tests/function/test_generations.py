"""Crossplane gives the conditions of a function no generation: its own condition tells it."""

import pytest

from modelplane.compose.readiness import condition_of, observed_generation
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import DEPLOYMENT
from support.crossplane.scenarios import serving, with_clusters


@pytest.fixture
def served(fleet: Fleet) -> Fleet:
    return serving(with_clusters(fleet, "a"))


def is_current(fleet: Fleet, kind: str, name: str, type_: str) -> bool:
    item = fleet.get(kind, name)
    assert "observedGeneration" not in condition_of(item, type_)
    return observed_generation(item, type_) >= int(item["metadata"]["generation"])


@pytest.mark.parametrize(
    ("kind", "name", "type_"),
    [("ModelDeployment", DEPLOYMENT, "ReplicasReady"), ("InferenceCluster", "a", "ClusterReady")],
)
def test_an_edit_is_known_to_have_been_observed_once_it_was(
    served: Fleet, kind: str, name: str, type_: str
) -> None:
    served.run_until(lambda: is_current(served, kind, name, type_), within=60)
    if kind == "ModelDeployment":
        served.edit(kind, name, replicas=2)
    else:
        pools = served.get(kind, name)["spec"]["nodePools"]
        served.edit(kind, name, nodePools=[{**pools[0], "nodeCount": 3}])
    assert not is_current(served, kind, name, type_)
    served.run_until(lambda: is_current(served, kind, name, type_), within=30)
