from typing import Any

import pytest

from modelplane.api.clouds.cluster_origin import Source
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Composition, Unknown
from unit.compose.clouds.composed import composed, manifests, said

NEBIUS = RECIPES[Source.NEBIUS]


def _nebius(**spec: Any) -> dict[str, Any]:
    pool = {"name": "gpu", "role": "GPU", "platform": "p", "preset": "q", "gpu": {"acceleratorType": "g"}}
    return {"nodePools": [pool | spec.pop("pool", {})], **spec}


def _fabric(network: str) -> dict[str, Any]:
    return {"fabric": {"type": "InfiniBand", "infiniband": {"fabric": network}}}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param(
            {"systemPool": {"minNodeCount": 4}},
            "systemPool: minNodeCount is greater than maxNodeCount",
            id="a system pool without a size",
        ),
        pytest.param(
            {"pool": _fabric("Fabric_2")},
            'pool "gpu": "Fabric_2" is not a fabric ID, such as fabric-2: correct it',
            id="a fabric that no resource can be named after",
        ),
        pytest.param(
            {"pool": _fabric("fabric-2\n")},
            'pool "gpu": "fabric-2\n" is not a fabric ID, such as fabric-2: correct it',
            id="a fabric with a line of its own",
        ),
        pytest.param(
            {"pool": {"nodeCount": 4, "maxNodeCount": 2}},
            'pool "gpu": nodeCount is greater than maxNodeCount, and minNodeCount is absent',
            id="more nodes at first than at most",
        ),
    ],
)
def test_settings_of_nebius_that_contradict_each_other_change_nothing(
    spec: dict[str, Any], cause: str
) -> None:
    composition = composed(NEBIUS, _nebius(**spec), {"network": {}, "cluster": {}})
    assert said(composition) == ("InvalidSettings", cause)
    assert [each.key for each in composition.children] == ["cluster", "network"]


@pytest.mark.parametrize(
    ("bounds", "size"),
    [
        pytest.param({"nodeCount": 0}, {"fixedNodeCount": 0}, id="no maximum: the size is kept"),
        pytest.param(
            {"nodeCount": 2, "maxNodeCount": 4},
            {"autoscaling": {"minNodeCount": 2, "maxNodeCount": 4}},
            id="no minimum: the first size is the fewest",
        ),
        pytest.param(
            {"nodeCount": 2, "minNodeCount": 0, "maxNodeCount": 4},
            {"autoscaling": {"minNodeCount": 0, "maxNodeCount": 4}},
            id="both bounds",
        ),
    ],
)
def test_a_group_has_a_size_or_bounds(bounds: dict[str, int], size: dict[str, Any]) -> None:
    group = manifests(composed(NEBIUS, _nebius(pool=bounds)))["nodegroup-gpu"]["spec"]["forProvider"]
    assert {key: group[key] for key in ("fixedNodeCount", "autoscaling") if key in group} == size


def _identity(composition: Composition) -> list[dict[str, str]]:
    return [each for each in composition.status["secrets"] if each["type"] != "Kubeconfig"]


def _config(**credentials: Any) -> tuple[dict[str, Any], ...]:
    return ({"metadata": {"name": "default"}, "spec": {"credentials": credentials}},)


SECRET = {"name": "nebius", "key": "key", "namespace": "modelplane-system"}


@pytest.mark.parametrize(
    ("account", "found"),
    [
        pytest.param(
            _config(source="Secret", secretRef=SECRET),
            [{"type": "NebiusServiceAccountCredentials", "name": "nebius", "key": "key"}],
            id="a Secret of its own namespace",
        ),
        pytest.param(
            _config(source="Secret", secretRef={**SECRET, "namespace": "crossplane-system"}),
            [
                {
                    "type": "NebiusServiceAccountCredentials",
                    "name": "nebius",
                    "key": "key",
                    "namespace": "crossplane-system",
                }
            ],
            id="a Secret of another namespace",
        ),
        pytest.param(_config(source="InjectedIdentity"), [], id="no Secret"),
        pytest.param((), [], id="no configuration"),
        pytest.param(Unknown("forbidden"), [], id="a configuration that cannot be read"),
    ],
)
def test_the_credentials_of_the_account_are_those_for_access(
    account: Any, found: list[dict[str, str]]
) -> None:
    composition = composed(NEBIUS, _nebius(), required={"account": account})
    assert said(composition)[0] == "Provisioning"
    assert len(composition.children) == 6, "nothing waits for the credentials"
    assert _identity(composition) == found


def test_only_the_key_for_user_data_of_a_secret_reaches_nodes() -> None:
    group = manifests(composed(NEBIUS, _nebius(fileSystem={"cloudInitSecret": "kubeconfig-of-east"})))
    template = group["nodegroup-system"]["spec"]["forProvider"]["template"]
    assert template["cloudInitUserDataSecretRef"] == {"name": "kubeconfig-of-east", "key": "userData"}
