from typing import Any

import pytest

from modelplane.compose.composition import Keep
from modelplane.compose.replica.superseded import keep_superseded

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
SPEC = {"containers": [], "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "old"}]}
OLD = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "old"}}


ROLLED_OUT = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "updatedReplicas": 1}}


@pytest.mark.parametrize(
    "child",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": SPEC}, id="a pod"),
        pytest.param(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "spec": {"template": {"spec": SPEC}},
                **ROLLED_OUT,
            },
            id="a Deployment",
        ),
        pytest.param(
            {
                "apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet",
                "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": SPEC}}},
                **ROLLED_OUT,
            },
            id="the workers of a gang",
        ),
    ],
)
def test_a_template_stays_while_it_is_named_by(child: dict[str, Any]) -> None:
    assert keep_superseded({"claim": OLD}, (), [child]) == (Keep("claim"),)
    assert keep_superseded({"claim": OLD, "workload": child}, ("workload",), []) == (Keep("claim"),)


@pytest.mark.parametrize(
    ("spec", "status", "kept"),
    [
        pytest.param({"replicas": 4}, {"replicas": 4, "updatedReplicas": 1}, True, id="some pods are old"),
        pytest.param({"replicas": 1}, {"replicas": 2, "updatedReplicas": 1}, True, id="one too many"),
        pytest.param({}, {"observedGeneration": 1, "updatedReplicas": 1}, True, id="it is not seen yet"),
        pytest.param({}, {}, True, id="nothing is told"),
        pytest.param({"replicas": 4}, {"replicas": 4, "updatedReplicas": 4}, False, id="all pods are new"),
    ],
)
def test_a_template_stays_while_a_workload_is_rolled_out(
    spec: dict[str, Any], status: dict[str, Any], kept: bool
) -> None:
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generation": 2},
        "spec": spec,
        "status": status,
    }
    found = keep_superseded({"claim": OLD, "workload": workload}, ("workload",), [])
    assert found == ((Keep("claim"),) if kept else ())


def test_a_template_goes_once_nothing_names_it() -> None:
    assert keep_superseded({"claim": OLD}, (), [{"kind": "Pod", "spec": {"containers": []}}]) == ()


def test_a_pickers_configuration_stays_while_a_pod_mounts_it() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}}
    pod = {"spec": {"containers": [], "volumes": [{"name": "config", "configMap": {"name": "old"}}]}}
    assert keep_superseded({"epp-config-1": config}, ("epp-config-2",), [pod]) == (Keep("epp-config-1"),)


def test_what_is_desired_is_not_kept_beside() -> None:
    assert keep_superseded({"claim": OLD}, ("claim",), [{"spec": SPEC}]) == ()


def test_a_workload_goes_though_it_names_itself() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "old"},
        "spec": {"template": {"spec": SPEC}},
    }
    assert keep_superseded({"model-serving-qwen": deployment}, (), []) == ()
