"""Deployments that others see before them: what they ask for now."""

import copy
from typing import Any

import pytest

from modelplane.api.decode import decode_as
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose import priorities
from modelplane.compose.composition import Request
from support.variants import SteppedVariants


def named(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a deployment of the example of standbys, and another one."""
    deployments = SteppedVariants().deployments
    other = next(each for each in deployments if each != name)
    return copy.deepcopy(deployments[name]), copy.deepcopy(deployments[other])


def kept_places(item: dict[str, Any], owner: dict[str, Any]) -> int:
    """Return the replicas that a deployment keeps places for, as another one sees it."""
    required = {"deployments": (item,), "caches": ()}
    [other] = priorities.others(Request(decode_as(ModelDeployment, owner), {}, required), {})
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
