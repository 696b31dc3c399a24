from typing import Any

import pytest

from modelplane.api.clouds.cluster_origin import Source
from modelplane.compose.clouds.table import RECIPES
from unit.compose.clouds.composed import composed, manifests, said

AKS = RECIPES[Source.AKS]


def _aks(**spec: Any) -> dict[str, Any]:
    pool = {"name": "gpu", "role": "GPU", "vmSize": "v", "gpu": {"acceleratorType": "nvidia-a10"}}
    return {"location": "westeurope", "nodePools": [pool | spec.pop("pool", {})], **spec}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param(
            {"networking": {"podCidr": "10.0.0.0/12"}},
            "vnetCidr 10.0.0.0/16 and podCidr 10.0.0.0/12 overlap: use separate ranges",
            id="pods in the virtual network",
        ),
        pytest.param(
            {"networking": {"subnetCidr": "10.1.0.0/20"}},
            "subnetCidr 10.1.0.0/20 is not inside vnetCidr 10.0.0.0/16",
            id="a subnet outside the virtual network",
        ),
        pytest.param(
            {"networking": {"serviceCidr": "10.96.0.0/29"}},
            "serviceCidr 10.96.0.0/29 is too small for cluster DNS: use /28 or larger",
            id="no room for cluster DNS",
        ),
        pytest.param(
            {"networking": {"serviceCidr": "10.96.0.300/29"}},
            "serviceCidr 10.96.0.300/29 is not a range of IPv4 addresses",
            id="no range at all",
        ),
        pytest.param(
            {"systemPool": {"minNodeCount": 4}},
            "systemPool: minNodeCount is greater than maxNodeCount",
            id="a system pool without a size",
        ),
        pytest.param(
            {"pool": {"zones": ["a"]}},
            'pool "gpu": zone a is not a number: Azure numbers zones, such as "1"',
            id="a zone that is no number",
        ),
        pytest.param(
            {"pool": {"name": "system"}},
            'pool name "system" is reserved for system pods: give the GPU pool another name',
            id="models in the system pool",
        ),
        pytest.param(
            {"pool": {"name": "system", "role": "System", "taints": [{"key": "a", "effect": "NoExecute"}]}},
            'pool "system" cannot have taints: remove them',
            id="taints of the system pool",
        ),
    ],
)
def test_settings_of_aks_that_contradict_each_other_change_nothing(spec: dict[str, Any], cause: str) -> None:
    composition = composed(AKS, _aks(**spec), {"vnet": {}, "cluster": {}})
    assert said(composition) == ("InvalidSettings", cause)
    assert [each.key for each in composition.children] == ["cluster", "vnet"]


@pytest.mark.parametrize(
    ("bounds", "size", "first"),
    [
        pytest.param(
            {"nodeCount": 2, "minNodeCount": 0, "maxNodeCount": 4},
            {"autoScalingEnabled": True, "minCount": 0, "maxCount": 4},
            {"nodeCount": 2},
            id="autoscaled: the size is the autoscaler's after the first",
        ),
        pytest.param(
            {"nodeCount": 3, "minNodeCount": 3, "maxNodeCount": 3},
            {"autoScalingEnabled": False, "nodeCount": 3},
            {},
            id="fixed: the size is kept",
        ),
    ],
)
def test_the_size_of_a_pool_has_one_owner(
    bounds: dict[str, int], size: dict[str, Any], first: dict[str, int]
) -> None:
    spec = manifests(composed(AKS, _aks(pool=bounds)))["nodepool-gpu"]["spec"]
    assert "LateInitialize" not in spec["managementPolicies"]
    assert spec.get("initProvider", {}) == first
    sizes = {"autoScalingEnabled", "nodeCount", "minCount", "maxCount"}
    assert {key: value for key, value in spec["forProvider"].items() if key in sizes} == size


def test_a_pool_has_its_own_name_in_azure_however_long_that_of_the_cluster() -> None:
    made = manifests(composed(AKS, _aks(pool={"name": "twelveletter"}), name="c" * 63))
    pool = made["nodepool-twelveletter"]["metadata"]
    assert pool["annotations"] == {"crossplane.io/external-name": "twelveletter"}
    assert len(pool["name"]) <= 63
    assert len(made["cluster"]["spec"]["forProvider"]["dnsPrefix"]) == 54


def test_clusters_of_two_namespaces_have_two_resource_groups() -> None:
    group = manifests(composed(AKS, _aks()))["resource-group"]
    assert group["metadata"]["name"].startswith("modelplane-system-starter-aks-")


def test_a_pool_named_system_is_the_one_in_the_cluster_and_is_never_empty() -> None:
    pool = {"name": "system", "role": "System", "vmSize": "large", "nodeCount": 2, "zones": ["2"]}
    made = manifests(composed(AKS, _aks(pool=pool)))
    assert set(made) == {"resource-group", "vnet", "subnet", "cluster"}
    spec = made["cluster"]["spec"]
    assert spec["initProvider"] == {"defaultNodePool": {"nodeCount": 2}}
    written = spec["forProvider"]["defaultNodePool"]
    wanted = {"vmSize": "large", "minCount": 1, "maxCount": 8, "zones": ["2"], "autoScalingEnabled": True}
    assert {key: written[key] for key in wanted} == wanted
