"""``modelplane classes apply`` against a real API server: every class is accepted, and edits are kept."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from click.testing import CliRunner, Result

from modelplane.api.inference_class import InferenceClass
from modelplane.api.kinds import kind_of
from modelplane.api.schema.crd import crd
from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.cli.main import main
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.fleets import ControlPlane

pytestmark = pytest.mark.kubernetes

KIND = kind_of(InferenceClass)
CLASS = "inferenceclass.modelplane.ai/l4-1x"


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, with the kind and without any class."""

    async def install() -> None:
        async with _client(control_plane) as client:
            await client.apply(crd(KIND))
            await wait_until_established(client, [f"{KIND.plural}.{KIND.group}"])

    asyncio.run(install())
    asyncio.run(_delete(control_plane, load_catalogue().machines))
    yield control_plane
    asyncio.run(_delete(control_plane, load_catalogue().machines))


def _client(control_plane: ControlPlane) -> Client:
    return Client.from_kubeconfig(str(control_plane.kubeconfig), known=fleet_resources.find_known)


async def _delete(control_plane: ControlPlane, names: Iterable[str]) -> None:
    async with _client(control_plane) as client:
        for name in names:
            await client.delete(fleet_resources.INFERENCE_CLASSES, name)


def apply(control_plane: ControlPlane, *arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["classes", "apply", *arguments, "--kubeconfig", str(control_plane.kubeconfig)]
    )


def test_every_class_is_accepted_and_then_unchanged(installed: ControlPlane) -> None:
    names = list(load_catalogue().machines)
    dry, first, second = (apply(installed, *names, *more) for more in (("--dry-run",), (), ()))
    assert dry.output.splitlines() == [
        f"inferenceclass.modelplane.ai/{each} created (dry run)" for each in names
    ]
    assert first.output.splitlines() == [f"inferenceclass.modelplane.ai/{each} created" for each in names]
    assert second.output.splitlines() == [f"inferenceclass.modelplane.ai/{each} unchanged" for each in names]


async def _edit(control_plane: ControlPlane) -> None:
    async with _client(control_plane) as client:
        change = {"spec": {"description": "ours"}}
        await client.patch(fleet_resources.INFERENCE_CLASSES, "l4-1x", change)


def test_an_edited_field_stays_until_it_is_overwritten(installed: ControlPlane) -> None:
    apply(installed, "l4-1x", "--force-conflicts")
    asyncio.run(_edit(installed))
    refused = apply(installed, "l4-1x")
    assert refused.exit_code == 1
    assert refused.output.startswith('Error: InferenceClass "l4-1x": Apply failed with 1 conflict')
    assert refused.output.endswith("overwrite them with --force-conflicts\n")
    assert apply(installed, "l4-1x", "--force-conflicts").output == f"{CLASS} configured\n"
    assert apply(installed, "l4-1x").output == f"{CLASS} unchanged\n"
