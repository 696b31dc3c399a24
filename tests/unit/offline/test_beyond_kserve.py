"""A deployment that KServe cannot run, beside a cluster where KServe runs the engines."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.manifests import validated

EXAMPLE = Path(__file__).parents[3] / "examples" / "topologies" / "kserve"


def _objects(file: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLE / file).read_text()))


@pytest.mark.parametrize(
    ("image", "selected", "backend", "warnings"),
    [
        pytest.param("example.com/engine:1", {}, "KServe", 1, id="an image whose entrypoint is not known"),
        pytest.param("vllm/vllm-openai:v0.23.0", {}, "KServe", 0, id="an image of vLLM"),
        pytest.param("example.com/engine:1", {"a": "b"}, "KServe", 0, id="on clusters that are not KServe's"),
        pytest.param("example.com/engine:1", {}, "Modelplane", 0, id="on a cluster with the other backend"),
    ],
)
def test_it_is_warned_of(image: str, selected: dict[str, str], backend: str, warnings: int) -> None:
    [deployment] = _objects("model-deployment.yaml")
    deployment["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"] = image
    if selected:
        deployment["spec"]["clusterSelector"] = {"matchLabels": selected}
    fleet = _objects("fleet.yaml")
    fleet[1]["spec"]["servingStack"]["backend"] = backend
    found = validated(yaml.safe_dump_all([deployment, *fleet]))
    assert (found.valid, found.summary.warnings) == (True, warnings)
    assert all("write the command" in problem.message for problem in found.problems)
