import asyncio
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from modelplane.kubelet.pods import container_worker, termination, views
from modelplane.kubelet.pods.reporting import ContainerReport, PodReport
from modelplane.kubelet.pods.termination import Termination, start_countdown
from modelplane.kubelet.pods.views import PodView, Running, Terminated
from modelplane.kubelet.records import Attempt

PRE_STOP = {"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}
POD: dict[str, Any] = {
    "metadata": {"name": "qwen"},
    "spec": {
        "initContainers": [{"name": "proxy", "restartPolicy": "Always", **PRE_STOP}],
        "containers": [{"name": "engine"}],
    },
}


class Stub:
    """A runtime, and the choice of it: a process that ends at its stop signal, or only when it is killed."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.did: list[str] = []
        self._deaf = deaf
        self._ended = asyncio.Event()

    def find(self, _attempt: Attempt) -> "Stub":
        return self

    async def terminate(self, _attempt: Attempt) -> None:
        self.did.append("terminate")
        if not self._deaf:
            self._ended.set()

    async def kill(self, _attempt: Attempt) -> None:
        self.did.append("kill")

    async def wait(self, _attempt: Attempt) -> None:
        await self._ended.wait()


def running() -> PodReport:
    view = PodView("", "", "", views.build_views(POD))
    report = PodReport(cast("Any", None), cast("Any", None), POD, view)
    for name in ("proxy", "engine"):
        ContainerReport(report, name).set(state=Running(""))
    return report


def ending(report: PodReport, stub: Stub, grace_s: float) -> "asyncio.Task[None]":
    """Begin to end the sidecar of a pod."""
    ends = Termination(ContainerReport(report, "proxy"), cast("Any", stub))
    turn = partial(container_worker.may_end, name="proxy")
    return asyncio.create_task(ends.end(Attempt(Path("/none")), start_countdown(grace_s), turn))


async def test_a_sidecar_is_asked_to_end_once_the_main_container_has() -> None:
    report, stub = running(), Stub()
    task = ending(report, stub, 60)
    done, _ = await asyncio.wait({task}, timeout=0.05)
    assert (done, stub.did) == (set(), [])
    ContainerReport(report, "engine").set(state=Terminated(0, 0, "", "", "", ""))
    await asyncio.wait_for(task, 30)
    assert stub.did == ["terminate"]


@pytest.mark.parametrize(
    ("deaf", "did"),
    [
        pytest.param(False, ["terminate"], id="it ends"),
        pytest.param(True, ["terminate", "kill"], id="it does not"),
    ],
)
async def test_a_sidecar_whose_turn_does_not_come_is_asked_before_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, deaf: bool, did: list[str]
) -> None:
    monkeypatch.setattr(termination, "_LEAST_GRACE_S", 0.2)
    stub = Stub(deaf=deaf)
    await asyncio.wait_for(ending(running(), stub, 0.0), 30)
    assert stub.did == did
