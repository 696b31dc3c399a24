"""Variables that Modelplane sets in engines, and references that nothing sets."""

from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.fields.pods.containers import PodSpec
from modelplane.api.fields.pods.engines import Phase, Role
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import convert, decode_as
from modelplane.compose.composition import Desired
from modelplane.compose.replica import engine_variables, replica_endpoint
from support.replicas import composed, engine, manifest, member

NAME = {"name": "MODELPLANE_SERVED_MODEL_NAME", "value": "ml-team/qwen"}
FLAG = "--served-model-name=$(MODELPLANE_SERVED_MODEL_NAME)"


def _replica(*members: dict[str, Any], deployment: str = "qwen") -> ModelReplica:
    made = manifest(engine("qwen", *members))
    if deployment:
        made["metadata"]["labels"] = {labels.DEPLOYMENT: deployment}
    return decode_as(ModelReplica, made)


def _env(owner: ModelReplica, container: int = 0, field: str = "containers") -> Any:
    [workload] = [
        child.manifest
        for child in composed(owner).children
        if isinstance(child, Desired) and child.manifest["kind"] == "Deployment"
    ]
    return workload["spec"]["template"]["spec"][field][container].get("env", [])


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"args": [FLAG]}, id="in an argument"),
        pytest.param({"command": ["vllm", "serve", FLAG]}, id="in the command"),
        pytest.param(
            {"command": ["sh", "-c", 'exec vllm serve --served-model-name "$MODELPLANE_SERVED_MODEL_NAME"']},
            id="as a variable of a shell",
        ),
    ],
)
def test_an_engine_that_names_its_served_name_has_it(container: dict[str, Any]) -> None:
    assert _env(_replica(member(**container))) == [NAME]


def test_the_authors_variables_can_refer_to_it_because_they_come_later() -> None:
    mine = {"name": "ALIAS", "value": "$(MODELPLANE_SERVED_MODEL_NAME)"}
    assert _env(_replica(member(env=[mine]))) == [NAME, mine]


def test_an_authors_variable_of_the_same_name_takes_precedence() -> None:
    mine = {"name": NAME["name"], "value": "mine"}
    assert _env(_replica(member(args=[FLAG], env=[mine]))) == [mine]


def test_an_engine_that_does_not_name_it_is_as_before_so_that_an_upgrade_restarts_none() -> None:
    assert _env(_replica(member(args=["--model=x"]))) == []


def test_a_container_beside_the_engine_has_it_too() -> None:
    pod = member()
    pod["template"]["spec"]["containers"].append({"name": "exporter", "image": "e", "args": [FLAG]})
    assert _env(_replica(pod), 1) == [NAME]


def test_a_replica_of_no_deployment_has_its_own_name() -> None:
    [found] = _env(_replica(member(args=[FLAG]), deployment=""))
    assert found["value"] == "ml-team/qwen-demo-d8871"


def test_the_gateway_knows_the_name_that_the_engine_serves_under() -> None:
    owner = _replica(member(args=["--model=Qwen/Qwen3", FLAG]))
    assert replica_endpoint.build_annotations(owner) == {labels.SERVED_MODEL: "ml-team/qwen"}


def _undefined(role: Role = Role.STANDALONE, phase: Phase | None = None, **container: Any) -> list[str]:
    spec = {"containers": [{"name": "engine", "image": "e", **container}]}
    found = engine_variables.undefined(convert(spec, PodSpec), role, phase)
    return [f"{'.'.join(map(str, each.path))} {each.name}" for each in found]


@pytest.mark.parametrize(
    ("container", "found"),
    [
        pytest.param({"args": ["--a=$(NOWHERE)"]}, ["containers.0.args.0 NOWHERE"], id="an argument"),
        pytest.param({"command": ["a", "$(b)"]}, ["containers.0.command.1 b"], id="the command, any case"),
        pytest.param(
            {"args": ["$(A)$(A) $(B)"]}, ["containers.0.args.0 A", "containers.0.args.0 B"], id="two"
        ),
        pytest.param(
            {"env": [{"name": "X", "value": "$(LATER)"}, {"name": "LATER", "value": "1"}]},
            ["containers.0.env.0.value LATER"],
            id="a variable that is set later",
        ),
        pytest.param(
            {"env": [{"name": "EARLY", "value": "1"}, {"name": "X", "value": "$(EARLY)"}]},
            [],
            id="a variable that is set before",
        ),
        pytest.param({"env": [{"name": "A", "value": "1"}], "args": ["$(A)"]}, [], id="the container's own"),
        pytest.param(
            {
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "args": ["$(A)"],
            },
            [],
            id="one with a source",
        ),
        pytest.param({"args": [FLAG]}, [], id="the served name"),
        pytest.param({"args": ["$(KUBERNETES_SERVICE_HOST)"]}, [], id="what Kubernetes sets everywhere"),
        pytest.param({"args": ["$$(NOWHERE)", "$NOWHERE", "${NOWHERE}"]}, [], id="other dollar signs"),
        pytest.param(
            {"args": ["$$$(NOWHERE)"]}, ["containers.0.args.0 NOWHERE"], id="a dollar sign before it"
        ),
        pytest.param(
            {"command": ["sh", "-c", "x=$(hostname) y=$((A * 4)) z=$(nproc --all)"]},
            [],
            id="programs in a script",
        ),
        pytest.param(
            {"command": ["/bin/bash", "-ec"], "args": ["serve --name=$(SERVED_NAME)"]},
            ["containers.0.args.0 SERVED_NAME"],
            id="a variable in a script",
        ),
        pytest.param({"args": ["$(HF_HUB_CACHE)"]}, ["containers.0.args.0 HF_HUB_CACHE"], id="not set here"),
    ],
)
def test_a_reference_that_nothing_defines_is_found(container: dict[str, Any], found: list[str]) -> None:
    assert _undefined(**container) == found


@pytest.mark.parametrize("name", ["MODELPLANE_RANK", "MODELPLANE_LEADER_ADDRESS", "LWS_GROUP_SIZE"])
def test_the_variables_of_a_gang_are_defined_in_gangs_only(name: str) -> None:
    assert _undefined(Role.WORKER, args=[f"$({name})"]) == []
    assert _undefined(args=[f"$({name})"]) == [f"containers.0.args.0 {name}"]


def test_the_variables_of_connectors_are_defined_in_both_phases_only() -> None:
    args = ["$(VLLM_NIXL_SIDE_CHANNEL_HOST)"]
    assert _undefined(phase=Phase.DECODE, args=args) == []
    assert len(_undefined(args=args)) == 1


def test_every_container_of_a_pod_is_looked_at() -> None:
    spec = {
        "initContainers": [{"name": "first", "image": "i", "args": ["$(A)"]}],
        "containers": [
            {"name": "beside", "image": "b", "args": ["$(MODELPLANE_RANK)"]},
            {"name": "engine", "image": "e", "args": ["$(MODELPLANE_RANK)"]},
        ],
    }
    found = engine_variables.undefined(convert(spec, PodSpec), Role.LEADER, None)
    assert [(each.path, each.container) for each in found] == [
        (("initContainers", 0, "args", 0), "first"),
        (("containers", 0, "args", 0), "beside"),
    ]


def _deployment(*args: str, conditions: tuple[str, ...] = ()) -> ModelDeployment:
    pod = {"spec": {"containers": [{"name": "engine", "image": "e", "args": list(args)}]}}
    devices = {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]}
    stated = [
        {
            "type": each,
            "status": "False",
            "reason": "InvalidSettings",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for each in conditions
    ]
    return decode_as(
        ModelDeployment,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": "qwen", "namespace": "ml-team"},
            "spec": {"engines": [{"name": "qwen", "members": [{"nodeSelector": devices, "template": pod}]}]},
            "status": {"conditions": stated},
        },
    )


def test_a_deployment_reports_the_variables_that_nothing_defines() -> None:
    [condition] = engine_variables.conditions(_deployment("--name=$(NAME)", "$(NAME)"))
    assert (condition.type, condition.holds, condition.reason) == (
        "SettingsSupported",
        False,
        "InvalidSettings",
    )
    assert condition.message.startswith('$(NAME) of container "engine" is not set, so the program receives')


def test_a_deployment_says_nothing_of_variables_unless_it_did_before() -> None:
    assert engine_variables.conditions(_deployment(FLAG)) == ()
    [condition] = engine_variables.conditions(_deployment(FLAG, conditions=("SettingsSupported",)))
    assert condition.holds
