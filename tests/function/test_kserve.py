"""Clusters whose backend is KServe, under Crossplane."""

import copy
from typing import Any

import pytest

from modelplane.compose.workload_kinds import capabilities
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import DEPLOYMENT, image, inference_cluster, model_deployment
from support.crossplane.objects import Object
from support.crossplane.remote import RemoteCluster
from support.crossplane.scenarios import far, serving

SERVICE = "LLMInferenceService"
VLLM = "vllm/vllm-openai:v0.23.0"


def _chosen(backend: str, nodes: int = 2) -> Object:
    cluster = inference_cluster("a", nodes=nodes, storage="shared")
    cluster["spec"]["servingStack"] = {"profile": "None", "backend": backend}
    return cluster


def _deployment(**settings: Any) -> Object:
    deployment = model_deployment(**settings)
    image(deployment, VLLM)
    container = deployment["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]
    container["args"] = ["--model=Qwen/Qwen3-0.6B"]
    return deployment


@pytest.fixture
def kserve(fleet: Fleet) -> RemoteCluster:
    """A cluster with KServe, which is its backend."""
    fleet.cluster("a", kinds=tuple(capabilities().values()))
    fleet.apply(_chosen("KServe"))
    fleet.run_until_ready("InferenceCluster", "a")
    fleet.run_for(5)
    return fleet.clusters["a"]


def test_a_deployment_serves_and_leaves_nothing(fleet: Fleet, kserve: RemoteCluster) -> None:
    fleet.apply(_deployment())
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    [service] = far(fleet, SERVICE)
    assert (service["spec"]["template"]["containers"][0]["image"], far(fleet, "Deployment")) == (VLLM, [])
    fleet.delete("ModelDeployment", DEPLOYMENT)
    fleet.run_for(300)
    assert (far(fleet, SERVICE), far(fleet, "Service"), far(fleet, "HTTPRoute")) == ([], [], [])
    assert kserve.reachable


def _shaped(*engines: tuple[str, tuple[str, ...]], **settings: Any) -> Object:
    """Return a deployment of engines, each by its phase and the roles of its members."""
    deployment = _deployment(**settings)
    [shape] = deployment["spec"]["engines"]
    deployment["spec"]["engines"] = []
    for phase, roles in engines:
        members = [{**copy.deepcopy(shape["members"][0]), "role": role} for role in roles]
        for member in members:
            container = member["template"]["spec"]["containers"][0]
            container["args"] += [f"--pipeline-parallel-size={len(roles)}"]
        named = {"name": (phase or "whole").lower(), "members": members} | ({"phase": phase} if phase else {})
        deployment["spec"]["engines"].append(named)
    return deployment


@pytest.mark.parametrize(
    ("deployment", "parts"),
    [
        pytest.param(_shaped(("", ("Leader", "Worker"))), {"template", "worker", "parallelism"}, id="a gang"),
        pytest.param(
            _shaped(
                ("Prefill", ("Standalone",)),
                ("Decode", ("Standalone",)),
                serving={"mode": "PrefillDecode"},
            ),
            {"template", "prefill", "labels"},
            id="two phases",
        ),
    ],
)
@pytest.mark.usefixtures("kserve")
def test_a_deployment_of_another_shape_serves_and_leaves_nothing(
    fleet: Fleet, deployment: Object, parts: set[str]
) -> None:
    fleet.apply(deployment)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    [service] = far(fleet, SERVICE)
    assert parts <= service["spec"].keys()
    fleet.delete("ModelDeployment", DEPLOYMENT)
    fleet.run_for(300)
    kinds = (SERVICE, "Service", "HTTPRoute", "InferencePool", "PodDisruptionBudget", "ResourceClaimTemplate")
    assert [far(fleet, kind) for kind in kinds] == [[]] * len(kinds)


def test_a_service_that_does_not_work_yet_is_not_announced(fleet: Fleet, kserve: RemoteCluster) -> None:
    kserve.runs = False
    fleet.apply(_deployment())
    fleet.run_for(60)
    assert len(far(fleet, SERVICE)) == 1
    assert (fleet.is_true("ModelDeployment", DEPLOYMENT), fleet.announced()) == (False, [])
    kserve.runs = True
    kserve.run_all()
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    assert len(fleet.announced()) == 1


def test_another_choice_deletes_nothing_and_is_for_new_replicas(fleet: Fleet) -> None:
    fleet.cluster("a", kinds=tuple(capabilities().values()))
    fleet.apply(_chosen("Modelplane"))
    fleet.run_until_ready("InferenceCluster", "a")
    serving(fleet)
    [before] = far(fleet, "Deployment")
    fleet.apply(_chosen("KServe"))
    fleet.run_for(300)
    assert ([each["metadata"]["uid"] for each in far(fleet, "Deployment")], far(fleet, SERVICE)) == (
        [before["metadata"]["uid"]],
        [],
    )
    assert fleet.is_true("ModelDeployment", DEPLOYMENT)
    fleet.apply(_deployment(replicas=2))
    fleet.run_until(lambda: len(far(fleet, SERVICE)) == 1)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    assert [each["metadata"]["uid"] for each in far(fleet, "Deployment")] == [before["metadata"]["uid"]]


def test_a_setting_that_kserve_cannot_express_is_refused_and_what_runs_stays(
    fleet: Fleet, kserve: RemoteCluster
) -> None:
    fleet.apply(_deployment())
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    edited = _deployment()
    image(edited, "example.com/engine:1")
    fleet.apply(edited)
    fleet.run_for(120)
    [service] = far(fleet, SERVICE)
    assert service["spec"]["template"]["containers"][0]["image"] == VLLM
    [replica] = [fleet.get("ModelReplica", each) for each in fleet.named("ModelReplica")]
    conditions = {each["type"]: each for each in replica["status"]["conditions"]}
    assert "write the command" in conditions["ModelAccepted"]["message"]
    assert (conditions["ModelReady"]["status"], kserve.reachable) == ("True", True)
