from pathlib import Path
from typing import cast

import pytest

from modelplane.kubelet.machine import Machine
from modelplane.kubelet.records import Attempt, PodRecord
from modelplane.kubelet.runtime.host_processes import HostProcesses


@pytest.mark.parametrize(
    ("name", "container_id"),
    [
        pytest.param("", "process://uid/3", id="the first main container, as agents up to 0.5.0 report it"),
        pytest.param("proxy", "process://uid/proxy/3", id="any other one"),
    ],
)
def test_containers_of_a_pod_have_ids_of_their_own(name: str, container_id: str) -> None:
    runtime = HostProcesses(cast("Machine", None), PodRecord("ml-team", "qwen", "uid", "127.77.0.1"), name)
    assert runtime.get_container_id(Attempt(Path("/agent/pods/uid/engine/3"))) == container_id
