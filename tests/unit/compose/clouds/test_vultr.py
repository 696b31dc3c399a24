from typing import Any

import pytest

from modelplane.api.clouds.cluster_origin import Source
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Keep
from unit.compose.clouds.composed import composed, manifests, said

VULTR = RECIPES[Source.VULTR]
MADE = {"cluster": {"status": {"atProvider": {"id": "7f1c9a2e"}}}}


def _vultr(**spec: Any) -> dict[str, Any]:
    pool = {"name": "gpu", "role": "GPU", "plan": "p", "gpu": {"acceleratorType": "g"}}
    return {"region": "ewr", "nodePools": [pool | spec.pop("pool", {})], **spec}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param(
            {"systemPool": {"minNodeCount": 4}},
            "systemPool: minNodeCount is greater than maxNodeCount",
            id="a system pool without a size",
        ),
        pytest.param(
            {"pool": {"name": "system"}},
            'pool name "system" is reserved for system pods: give the GPU pool another name',
            id="models in the system pool",
        ),
        pytest.param(
            {"pool": {"nodeCount": 4, "maxNodeCount": 2}},
            'pool "gpu": nodeCount is greater than maxNodeCount, and minNodeCount is absent',
            id="more nodes at first than at most",
        ),
    ],
)
def test_settings_of_vultr_that_contradict_each_other_change_nothing(
    spec: dict[str, Any], cause: str
) -> None:
    composition = composed(VULTR, _vultr(**spec), MADE)
    assert said(composition) == ("InvalidSettings", cause)
    assert composition.children == (Keep("cluster"),)


def test_pools_wait_for_the_id_of_the_cluster_and_stay_when_it_is_lost() -> None:
    first = composed(VULTR, _vultr())
    assert list(manifests(first)) == ["cluster"]
    made = manifests(composed(VULTR, _vultr(), MADE))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    silent = {key: {**manifest, **ready} for key, manifest in made.items()}
    composition = composed(VULTR, _vultr(), silent)
    assert Keep("nodepool-gpu") in composition.children
    assert said(composition) == (
        "Provisioning",
        "1 of 2 resources are ready: waiting for the id of the cluster, which Vultr reports",
    )


@pytest.mark.parametrize(
    ("bounds", "size", "first"),
    [
        pytest.param(
            {"nodeCount": 2},
            {"autoScaler": False, "nodeQuantity": 2},
            {},
            id="no maximum: the size is kept",
        ),
        pytest.param(
            {"nodeCount": 2, "maxNodeCount": 4},
            {"autoScaler": True, "minNodes": 2, "maxNodes": 4},
            {"nodeQuantity": 2},
            id="no minimum: the first size is the fewest",
        ),
        pytest.param(
            {"nodeCount": 3, "minNodeCount": 1, "maxNodeCount": 4},
            {"autoScaler": True, "minNodes": 1, "maxNodes": 4},
            {"nodeQuantity": 3},
            id="both bounds",
        ),
    ],
)
def test_the_size_of_a_pool_has_one_owner(
    bounds: dict[str, int], size: dict[str, Any], first: dict[str, int]
) -> None:
    spec = manifests(composed(VULTR, _vultr(pool=bounds), MADE))["nodepool-gpu"]["spec"]
    assert "LateInitialize" not in spec["managementPolicies"]
    assert spec.get("initProvider", {}) == first
    sizes = {"autoScaler", "nodeQuantity", "minNodes", "maxNodes"}
    assert {key: value for key, value in spec["forProvider"].items() if key in sizes} == size


def test_a_pool_named_system_is_the_one_in_the_cluster() -> None:
    taint = {"key": "team", "value": "platform", "effect": "NoSchedule"}
    pool = {"name": "system", "role": "System", "plan": "large", "nodeCount": 2, "taints": [taint]}
    made = manifests(composed(VULTR, _vultr(pool=pool), MADE))
    assert list(made) == ["cluster"]
    written = made["cluster"]["spec"]["forProvider"]["nodePools"]
    wanted = {"label": "system", "plan": "large", "autoScaler": False, "nodeQuantity": 2, "taints": [taint]}
    assert {key: written[key] for key in wanted} == wanted
