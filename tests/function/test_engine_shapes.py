"""Whole lives under Crossplane of deployments with a connector, and with containers beside the engine."""

from typing import Any

import pytest

from modelplane.compose.workload_kinds import capabilities
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import DEPLOYMENT, inference_cluster, model_deployment
from support.crossplane.scenarios import far
from support.engine_shapes import WORDS, edited, shapes

_DEVICE = model_deployment()["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"][0]
SHAPES = shapes(_DEVICE)
KINDS = (
    *("Deployment", "Service", "HTTPRoute", "InferencePool", "PodDisruptionBudget", "ResourceClaimTemplate"),
    *("ServiceAccount", "Role", "RoleBinding", "ConfigMap"),
)


def _templates(fleet: Fleet) -> str:
    return str([each["spec"]["template"] for each in far(fleet, "Deployment")])


@pytest.mark.parametrize("shape", SHAPES)
def test_it_serves_takes_an_edit_and_leaves_nothing(fleet: Fleet, shape: str) -> None:
    fleet.cluster("a", kinds=tuple(capabilities().values()))
    fleet.apply(inference_cluster("a", nodes=4))
    fleet.run_until_ready("InferenceCluster", "a")
    fleet.run_for(5)
    before = {kind: _names(fleet, kind) for kind in KINDS}

    fleet.apply(model_deployment(**SHAPES[shape]))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    assert [word for word in WORDS[shape] if word not in _templates(fleet)] == []
    assert "--served-model-name=edited" not in _templates(fleet)

    fleet.apply(model_deployment(**edited(SHAPES[shape])))
    fleet.run_for(300)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    assert [word for word in WORDS[shape] if word not in _templates(fleet)] == []
    assert _templates(fleet).count("--served-model-name=edited") == len(SHAPES[shape]["engines"])

    fleet.delete("ModelDeployment", DEPLOYMENT)
    fleet.run_for(300)
    assert {kind: _names(fleet, kind) for kind in KINDS} == before


def _names(fleet: Fleet, kind: str) -> list[Any]:
    return sorted(each["metadata"]["name"] for each in far(fleet, kind))
