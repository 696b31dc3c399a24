"""Objects that cost the controllers much: no tenant takes another's time."""

from typing import Any

import pytest

from modelplane.compose.readiness import condition_of
from modelplane.controllers.fleet_resources import MODEL_DEPLOYMENTS
from modelplane.kube import errors, resources
from support.attacked import API, Attacked

pytestmark = pytest.mark.kubernetes

NUMBERS = f"[{','.join(map(str, range(66)))}]"
LOOPS = (
    f"{NUMBERS}.all(x, {NUMBERS}.all(y, quantity('1').add(x).isGreaterThan(quantity('%d')))) "
    "&& device.driver == 'none'"
)
"""A selector of no device, which takes as long as one may; the number makes it another one."""


def deployment(name: str, *selectors: str) -> dict[str, Any]:
    devices = [
        {"name": f"d-{at}", "selectors": [{"cel": each} for each in selectors[at : at + 8]]}
        for at in range(0, len(selectors), 8)
    ]
    container = {"name": "engine", "image": "engine:1"}
    member = {"nodeSelector": {"devices": devices}, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "attacker"},
        "spec": {"replicas": 1, "engines": [{"name": "engine", "members": [member]}]},
    }


async def make_namespace(fleet: Attacked) -> None:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "attacker"}}
    if await fleet.client.get(resources.NAMESPACES, "attacker") is None:
        await fleet.client.create(manifest)


async def test_many_long_selectors_are_refused_when_they_are_stored(fleet: Attacked) -> None:
    await make_namespace(fleet)
    with pytest.raises(
        errors.Invalid, match="the device selectors of an engine have at most 20,480 characters"
    ):
        await fleet.client.apply(deployment("long", *(LOOPS % -number for number in range(128))))


async def test_many_costly_selectors_are_refused_before_one_is_evaluated(fleet: Attacked) -> None:
    await make_namespace(fleet)
    async with fleet.controllers():
        await fleet.client.apply(deployment("costly", *(LOOPS % -number for number in range(40))))
        said = await fleet.until_said(
            MODEL_DEPLOYMENTS, "costly", "ReplicasScheduled", "its 40 different device selectors", "attacker"
        )
    assert said["reason"] == "InvalidNodeSelector"
    assert said["message"].endswith("simplify them, because a deployment is allowed 1,000,000")


async def test_costly_deployments_of_one_namespace_delay_no_other(fleet: Attacked) -> None:
    await make_namespace(fleet)
    names = [f"costly-{number}" for number in range(40)]
    for number, name in enumerate(names):
        await fleet.client.apply(deployment(name, LOOPS % -(1000 + number)))
    async with fleet.controllers():
        await fleet.deploy("qwen", "victim")
        await fleet.replica("victim")
        found = await fleet.client.list(MODEL_DEPLOYMENTS, "attacker")
        waiting = [each for each in found.items if not condition_of(each, "ReplicasScheduled")]
        assert waiting, "the victim's turn came before the attacker's last"
