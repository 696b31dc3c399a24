"""The region of a cluster: its label, or else the cloud's own name for it."""

from typing import Any

import pytest

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.schema.decode import InvalidObject, decode_as

NETWORK: dict[str, Any] = {"region": "us-west-2"}


@pytest.mark.parametrize(
    ("cluster", "label", "region"),
    [
        pytest.param({"source": "EKS", "eks": NETWORK}, None, "us-west-2", id="EKS"),
        pytest.param(
            {"source": "GKE", "gke": {"project": "my-project", "region": "us-west1"}},
            None,
            "us-west1",
            id="GKE",
        ),
        pytest.param({"source": "AKS", "aks": {"location": "westeurope"}}, None, "westeurope", id="AKS"),
        pytest.param({"source": "Vultr", "vultr": {"region": "ewr"}}, None, "ewr", id="Vultr"),
        pytest.param({"source": "Nebius", "nebius": {}}, None, "", id="Nebius does not say"),
        pytest.param(
            {"source": "EKS", "eks": NETWORK},
            "us-west",
            "us-west",
            id="the platform's own name counts before",
        ),
        pytest.param({"source": "EKS", "eks": NETWORK}, "", "us-west-2", id="an empty label is none"),
        pytest.param(
            {"source": "Existing", "existing": {"secretRef": {"name": "s"}}, "eks": NETWORK},
            None,
            "",
            id="settings of another source do not count",
        ),
        pytest.param(
            {"source": "Existing", "existing": {"secretRef": {"name": "s"}}}, "eu", "eu", id="a label"
        ),
    ],
)
def test_the_region_of_a_cluster(cluster: dict[str, Any], label: str | None, region: str) -> None:
    labels = {} if label is None else {"modelplane.ai/region": label}
    found = {"metadata": {"name": "c", "labels": labels}, "spec": {"cluster": cluster}}
    assert decode_as(InferenceCluster, found).find_region() == region


REFUSED = [
    pytest.param("", id="empty"),
    pytest.param("eu west", id="with a space"),
    pytest.param("eu-", id="with a dash at its end"),
    pytest.param("e" * 64, id="longer than a label's value"),
    pytest.param(7, id="a number"),
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_region_is_named_like_a_labels_value(name: object) -> None:
    metadata = {"name": "x", "namespace": "ml"}
    with pytest.raises(InvalidObject):
        decode_as(ModelEndpoint, {"metadata": metadata, "spec": {"url": "http://a", "region": name}})
    with pytest.raises(InvalidObject):
        decode_as(ModelDeployment, {"metadata": metadata, "spec": {"replicas": 1, "regions": [name]}})


@pytest.mark.parametrize(
    "regions", [pytest.param([], id="none"), pytest.param([f"r{at}" for at in range(33)], id="too many")]
)
def test_a_rule_has_some_regions_and_not_too_many(regions: list[str]) -> None:
    with pytest.raises(InvalidObject):
        decode_as(ModelDeployment, {"metadata": {"name": "x"}, "spec": {"replicas": 1, "regions": regions}})
