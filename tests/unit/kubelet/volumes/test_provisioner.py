import logging
from pathlib import Path
from typing import Any, cast

import pytest

from modelplane.kube.client import Client
from modelplane.kube.errors import Unreachable
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import Recorder
from modelplane.kubelet.records import AgentDirectory
from modelplane.kubelet.volumes.provisioner import Provisioner
from modelplane.kubelet.volumes.provisioning import CreateVolume

CLAIM = {"metadata": {"namespace": "ml-team", "name": "cache", "uid": "u-1"}}


class Away:
    """An API server that does not answer."""

    async def create(self, _manifest: dict[str, Any]) -> dict[str, Any]:
        raise Unreachable("connection refused")


@pytest.fixture
def provisioner(tmp_path: Path) -> Provisioner:
    client = cast("Client", Away())
    machine = Machine(client, AgentDirectory(tmp_path), (), Recorder(client, "laptop"))
    return Provisioner(machine, "laptop")


async def test_a_problem_is_logged_once_with_its_object_and_again_for_a_new_one(
    provisioner: Provisioner, caplog: pytest.LogCaptureFixture
) -> None:
    message = (
        'cannot create the volume of PersistentVolumeClaim "ml-team/cache", retrying: connection refused'
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert not await provisioner._try(CLAIM, CreateVolume({}))
        assert [record.getMessage() for record in caplog.records] == [message]
        provisioner._forget_deleted()  # the claim is not in the copy, so it was deleted
        await provisioner._try(CLAIM, CreateVolume({}))
    assert [record.getMessage() for record in caplog.records] == [message, message]
