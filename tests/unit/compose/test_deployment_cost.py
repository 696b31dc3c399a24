"""The status of a ModelDeployment has the cost of its replicas."""

import pytest

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.facts import DeploymentFacts
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded

PRICING = "pricing: {currency: USD, devices: [{name: gpu, perHour: '0.123456789'}]}"


@pytest.mark.parametrize(
    ("pricing", "expected"),
    [
        pytest.param("", None, id="no pool has a price"),
        pytest.param(
            f"  {PRICING}\n",
            {"currency": "USD", "perHour": "0.246913578", "unpricedReplicas": 1},
            id="two replicas with a price and one without",
        ),
    ],
)
def test_the_cost_of_all_replicas_is_in_the_status(pricing: str, expected: object) -> None:
    unpriced = joined(CLASS.replace("name: l4", "name: old"), cluster("old", nodes=1, class_name="old"))
    wanted = DEPLOYMENT.replace("replicas: 1", "replicas: 3")
    files = assemble(loaded(joined(CLASS + pricing, cluster("west"), unpriced, wanted)).objects)
    owner = decode_as(ModelDeployment, files.deployments[0])
    found = {
        requirement.key: files.store.find(requirement) for requirement in model_deployment.requirements(owner)
    }
    composition = model_deployment.compose(Request(owner, {}, found, DeploymentFacts()))
    assert isinstance(composition, Composition)
    assert composition.status.get("cost") == expected
