"""Deployments that others see before them: what they ask for now."""

import copy
from typing import Any

import pytest

from modelplane.api.fields.deployment.standby_settings import StandbyFor
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Request, Requirement
from modelplane.compose.deployment import preferred, scheduler_quotas
from modelplane.compose.facts import DeploymentFacts
from modelplane.compose.kinds import COMPOSERS
from support.variants import SteppedVariants


def named(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a deployment of the example of standbys, and another one."""
    deployments = SteppedVariants().deployments
    other = next(each for each in deployments if each != name)
    return copy.deepcopy(deployments[name]), copy.deepcopy(deployments[other])


def kept_places(item: dict[str, Any], owner: dict[str, Any]) -> int:
    """Return the replicas that a deployment keeps places for, as another one sees it."""
    required = {"all-deployments": (item,), "caches": ()}
    [other] = scheduler_quotas.other_deployments(
        Request(decode_as(ModelDeployment, owner), {}, required, DeploymentFacts()), {}
    )
    return other.replicas


@pytest.mark.parametrize(
    ("status", "runs"),
    [
        pytest.param({}, False, id="a standby that has not decided"),
        pytest.param({"standby": {"active": False}}, False, id="a standby that rests"),
        pytest.param({"standby": {"active": True}}, True, id="a standby that runs"),
    ],
)
def test_a_standby_keeps_places_only_while_it_runs(status: dict[str, Any], runs: bool) -> None:
    """Else replicas of lower priority would leave for replicas that are never made."""
    standby = next(
        name for name, each in SteppedVariants().deployments.items() if "standbyFor" in each["spec"]
    )
    item, owner = named(standby)
    item["status"] = status
    assert kept_places(item, owner) == (item["spec"]["replicas"] if runs else 0)


def test_another_deployment_keeps_places_for_all_its_replicas() -> None:
    preferred = next(
        name for name, each in SteppedVariants().deployments.items() if "standbyFor" not in each["spec"]
    )
    item, owner = named(preferred)
    assert kept_places(item, owner) == item["spec"]["replicas"] > 0


QUOTA: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "DeviceQuota",
    "metadata": {"name": "q", "uid": "q", "resourceVersion": "1"},
    "spec": {"namespaces": ["a"], "priorityClassNames": ["serving"]},
}


def test_a_standby_reads_no_deployment_of_another_namespace_where_priorities_are_in_use() -> None:
    """By one key for both lists, a deployment of the same name elsewhere decided whether a standby runs."""
    run = SteppedVariants()
    standby = next(each for each in run.deployments.values() if "standbyFor" in each["spec"])
    name = standby["spec"]["standbyFor"]["name"]
    foreign = copy.deepcopy(run.deployments[name])
    foreign["metadata"] |= {"namespace": "zzz", "uid": "foreign"}

    def find(requirement: Requirement) -> tuple[dict[str, Any], ...]:
        there = (QUOTA, foreign, *run.deployments.values())
        return tuple(each for each in there if each["kind"] == requirement.kind and requirement.matches(each))

    owner = decode_as(ModelDeployment, standby)
    requirements = COMPOSERS["ModelDeployment"].required(owner, find)
    request = Request(owner, {}, {each.key: find(each) for each in requirements}, DeploymentFacts())
    assert len(request.required) == len(requirements)
    before = preferred.order(request, standby_for(owner))
    assert isinstance(before, tuple)
    assert {each.deployment.metadata.namespace for each in before} == {owner.metadata.namespace}
    assert {each.namespace for each in scheduler_quotas.other_deployments(request, {})} == {
        owner.metadata.namespace,
        "zzz",
    }


def standby_for(owner: ModelDeployment) -> StandbyFor:
    """Return what a deployment stands by for."""
    assert owner.spec.standby_for is not None
    return owner.spec.standby_for
