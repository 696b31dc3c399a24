"""A deployment whose pods have labels, annotations or variables that clusters refuse."""

from typing import Any

import pytest
import yaml

from support.manifests import CLASS, DEPLOYMENT, cluster, joined, validated

REFUSED = {"annotations": {"kuma.io/mesh": "x", "devices.nri.io/a": "x"}, "labels": {"gpu-fraction": "x"}}
NAMED = 'annotation "devices.nri.io/a", annotation "kuma.io/mesh", label "gpu-fraction"'
ACCEPTS = "  podKeys: {accept: [kuma.io/, devices.nri.io/, gpu-fraction]}\n"


def deployment(metadata: dict[str, Any], selector: dict[str, str] | None = None, **container: Any) -> str:
    """Return a ModelDeployment whose pods have metadata."""
    written = yaml.safe_load(DEPLOYMENT)
    template = written["spec"]["engines"][0]["members"][0]["template"]
    template["metadata"] = metadata
    template["spec"]["containers"][0] |= container
    if selector:
        written["spec"]["clusterSelector"] = {"matchLabels": selector}
    return yaml.safe_dump(written)


@pytest.mark.parametrize(
    ("files", "severity", "message"),
    [
        pytest.param(
            [deployment(REFUSED)], "warning", f"clusters do not accept {NAMED}", id="no cluster is known"
        ),
        pytest.param(
            [deployment(REFUSED), CLASS, cluster("east")],
            "error",
            f'InferenceCluster "east" does not accept {NAMED}',
            id="the only cluster refuses it",
        ),
        pytest.param(
            [deployment(REFUSED), CLASS, cluster("east"), cluster("west", extra=ACCEPTS)],
            "",
            "",
            id="one cluster accepts it",
        ),
        pytest.param(
            [deployment(REFUSED, {"a": "b"}), CLASS, cluster("west", extra=ACCEPTS)],
            "warning",
            NAMED,
            id="the cluster that accepts it is not selected",
        ),
        pytest.param([deployment({"labels": {"team": "x"}})], "", "", id="an accepted key"),
        pytest.param(
            [deployment({}, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])],
            "error",
            'no cluster accepts variable "NVIDIA_VISIBLE_DEVICES"',
            id="a variable that selects devices",
        ),
    ],
)
def test_it_names_all_that_is_refused(files: list[str], severity: str, message: str) -> None:
    found = [each for each in validated(joined(*files)).problems if "of the pods" in each.message]
    assert [each.severity for each in found] == [severity] * bool(severity)
    assert all(message in each.message for each in found)
