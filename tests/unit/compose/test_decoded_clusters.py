"""A replica's cluster is decoded once for each of its versions."""

from typing import Any

import pytest

from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.replica.replica_status import decoded_cluster


def _cluster(version: str, **spec: Any) -> dict[str, Any]:
    existing = {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east", "uid": "u", "resourceVersion": version},
        "spec": {"cluster": existing, **spec},
    }


def test_one_version_is_decoded_once() -> None:
    assert decoded_cluster(_cluster("1")) is decoded_cluster(_cluster("1"))


def test_a_later_version_is_decoded_again() -> None:
    decoded_cluster(_cluster("1"))
    later = decoded_cluster(_cluster("2", servingStack={"profile": "None"}))
    assert later.spec.serving_stack.profile == "None"


def test_a_cluster_without_a_version_as_in_a_file_is_decoded_each_time() -> None:
    file = _cluster("")
    assert decoded_cluster(file) is not decoded_cluster(file)


def test_one_that_cannot_be_read_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidObject, match="nodePools"):
            decoded_cluster(_cluster("3", nodePools="many"))
