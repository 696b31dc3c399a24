"""Any services and labels: those that are found are those that select the deployment."""

from typing import Any

from hypothesis import given, strategies as st

from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.service import hold
from modelplane.compose.service.selecting_services import MOST_COMPARED, SelectingServices, TooMany

API = "modelplane.ai/v1alpha1"

labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)
selectors = st.dictionaries(
    st.sampled_from(["a", "b", "c", "modelplane.ai/cluster", "modelplane.ai/deployment"]),
    st.sampled_from(["x", "y", "qwen"]),
    max_size=3,
)
services = st.lists(st.lists(selectors, min_size=1, max_size=3), max_size=8)


def deployment(own: dict[str, str]) -> dict[str, Any]:
    device = {"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}
    containers = [{"name": "engine", "image": "vllm/vllm-openai"}]
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [device]},
        "template": {"spec": {"containers": containers}},
    }
    template = {
        "metadata": {"labels": own},
        "spec": {"engines": [{"name": "qwen", "members": [member]}]},
    }
    metadata = {"name": "qwen", "namespace": "ml"}
    spec = {"replicas": 0, "template": template}
    return {"apiVersion": API, "kind": "ModelDeployment", "metadata": metadata, "spec": spec}


def service(number: int, *selecting: dict[str, str]) -> dict[str, Any]:
    spec = {"endpoints": [{"selector": {"matchLabels": each}} for each in selecting]}
    metadata = {"name": f"service-{number}", "namespace": "ml"}
    return {"apiVersion": API, "kind": "ModelService", "metadata": metadata, "spec": spec}


@given(services, labels)
def test_the_services_that_are_found_are_those_that_select(
    several: list[list[dict[str, str]]], own: dict[str, str]
) -> None:
    items = tuple(service(number, *selecting) for number, selecting in enumerate(several))
    expected = {
        item["metadata"]["name"]
        for item in items
        if hold.selects(decode_as(ModelService, item), deployment(own))
    }
    found = SelectingServices(items).of(deployment(own))
    assert not isinstance(found, TooMany)
    assert (set(found), len(found)) == (expected, len(expected))


def test_a_deployment_that_cannot_be_read_may_be_selected_by_every_service() -> None:
    broken = deployment({}) | {"spec": 3}
    found = SelectingServices((service(1, {"a": "x"}), service(2, {}))).of(broken)
    assert not isinstance(found, TooMany)
    assert set(found) == {"service-1", "service-2"}


def test_a_service_that_cannot_be_read_selects_nothing() -> None:
    assert SelectingServices((service(1) | {"spec": 3},)).of(deployment({})) == ()


def test_services_of_other_labels_are_not_compared() -> None:
    others = tuple(service(number, {"a": "x", "b": str(number)}) for number in range(2 * MOST_COMPARED))
    own = service(1000, {"modelplane.ai/deployment": "qwen"})
    # The rarest label counts, so that a common one costs nothing.
    assert SelectingServices((*others, own)).of(deployment({"a": "x"})) == ("service-1000",)


def test_more_selectors_than_are_compared_are_told() -> None:
    same = tuple(service(number, {"a": "x"}) for number in range(MOST_COMPARED))
    several = SelectingServices(same).of(deployment({"a": "x"}))
    assert not isinstance(several, TooMany)
    assert len(several) == MOST_COMPARED
    found = SelectingServices((*same, service(1000, {}))).of(deployment({"a": "x"}))
    assert str(found).startswith("more than 128 ModelService selectors use the deployment's labels: ")
