"""Objects of ``modelplane deploy`` on a real API server: accepted, changed later, and left to others."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from modelplane.api.kinds import kind_of
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_service import ModelService
from modelplane.api.schema.crd import crd
from modelplane.cli.models.deploy import apply_all
from modelplane.cli.target import Target
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.user_error import UserError
from support.deployed_models import fleet, pool, proposed, wanted
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

KINDS = [kind_of(each) for each in (ModelCache, ModelDeployment, ModelService)]
NAMESPACE = "default"


def _client(control_plane: ControlPlane) -> Client:
    return Client.from_kubeconfig(
        str(control_plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
    )


@pytest.fixture
def live(control_plane: ControlPlane) -> Iterator[Target]:
    async def install() -> None:
        async with _client(control_plane) as client:
            await create_missing(client, [crd(kind) for kind in KINDS])

    async def remove() -> None:
        async with _client(control_plane) as client:
            for item in manifests():
                resource, name = fleet_resources.resource_of(item), item["metadata"]["name"]
                await client.delete(resource, name, NAMESPACE)

    asyncio.run(install())
    yield Target(control_plane.kubeconfig, "", None)
    asyncio.run(remove())


def manifests(**fields: Any) -> tuple[Any, ...]:
    deployment = wanted("Qwen/Qwen3-8B", 16_384, namespace=NAMESPACE, name="deployed-by-name", **fields)
    best = proposed(deployment, fleet([pool("h100", "h100-8x")])).best
    assert best is not None
    return best.manifests


def test_a_later_run_changes_what_an_earlier_one_wrote(
    live: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = []
    for replicas in (1, 1, 2):
        apply_all(live, manifests(replicas=replicas))
        outcomes.append([line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()])
    assert outcomes == [["created"] * 3, ["unchanged"] * 3, ["unchanged", "configured", "unchanged"]]


def test_a_field_that_another_has_changed_is_a_conflict(live: Target, control_plane: ControlPlane) -> None:
    async def scale() -> None:
        async with _client(control_plane) as client:
            await client.patch(
                fleet_resources.MODEL_DEPLOYMENTS, "deployed-by-name", {"spec": {"replicas": 3}}, NAMESPACE
            )

    apply_all(live, manifests())
    asyncio.run(scale())
    with pytest.raises(UserError, match=r"spec\.replicas.*another manager owns these fields"):
        apply_all(live, manifests())


def test_an_object_of_others_is_left_as_it_is(live: Target, control_plane: ControlPlane) -> None:
    async def write() -> None:
        async with _client(control_plane) as client:
            await client.apply(dict(manifests()[-1]))

    asyncio.run(write())
    with pytest.raises(UserError, match=r"ModelService .* already exists"):
        apply_all(live, manifests())


def test_a_namespace_that_is_not_there_is_told(live: Target) -> None:
    absent = [{**each, "metadata": {**each["metadata"], "namespace": "absent"}} for each in manifests()]
    with pytest.raises(UserError, match="kubectl create namespace absent"):
        apply_all(live, tuple(absent))
