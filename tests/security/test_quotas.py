"""Quotas of a namespace: the example limits a team, and a team at its limit does not hold up another one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api.kinds import KINDS
from modelplane.api.meta import GROUP
from modelplane.controllers import fleet_resources
from modelplane.install.manifests import build_quota as manifest
from modelplane.kube import errors
from modelplane.kube.resources import Resource
from support.attacked import Attacked
from support.patience import PATIENCE_S

TEAM = "ml-team"
EXAMPLE = Path(__file__).parents[2] / "examples" / "quotas" / "resource-quota.yaml"
QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")


def quota() -> dict[str, Any]:
    return dict(yaml.safe_load(EXAMPLE.read_text()))


def test_the_example_limits_every_kind_of_a_namespace() -> None:
    kinds = {f"count/{each.plural}.{GROUP}" for each in KINDS if each.namespaced and each.group == GROUP}
    assert {each for each in quota()["spec"]["hard"] if each.endswith(GROUP)} == kinds


def test_an_installation_prints_the_quota_of_the_example() -> None:
    assert manifest(TEAM) == quota()


async def limit(fleet: Attacked, **lower: int) -> None:
    """Apply the example's quota to the team, with some of its limits lower."""
    await fleet.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    limited = quota()
    limited["spec"]["hard"] |= {f"count/{kind}.{GROUP}": str(most) for kind, most in lower.items()}
    await fleet.client.apply(limited)
    async with asyncio.timeout(PATIENCE_S):
        # Kubernetes looks for new kinds to count every 30 seconds, and until then refuses their objects.
        while not limited["spec"]["hard"].keys() <= await _counted(fleet):
            await asyncio.sleep(0.2)


async def _counted(fleet: Attacked) -> set[str]:
    found = (await fleet.client.list(QUOTAS, TEAM)).items[0]
    return set(found.get("status", {}).get("used", {}))


@pytest.mark.kubernetes
@pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning")
async def test_a_team_at_its_limit_is_told_so_and_delays_no_other(fleet: Attacked) -> None:
    await limit(fleet, modelreplicas=2, modeldeployments=1)
    async with fleet.controllers():
        await fleet.deploy("greedy", TEAM)
        with pytest.raises(errors.Forbidden, match="exceeded quota: modelplane, requested: count/modeldepl"):
            await fleet.deploy("one-more", TEAM)
        more = {"spec": {"replicas": 4}}
        await fleet.client.patch(fleet_resources.MODEL_DEPLOYMENTS, "greedy", more, TEAM)
        greedy = (fleet_resources.MODEL_DEPLOYMENTS, "greedy", "Synced")
        await fleet.until_said(*greedy, "exceeded quota: modelplane", TEAM, status="False")
        # The replicas that were not made hold no devices: six of eight nodes are left.
        for each in range(6):
            await fleet.deploy(f"modest-{each}", "research")
        for each in range(6):
            await fleet.until_placed(f"modest-{each}", "research")
        assert len((await fleet.client.list(fleet_resources.MODEL_REPLICAS, TEAM)).items) == 2
