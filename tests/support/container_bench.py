"""One pod on a machine whose container runtime is the stand-in, without an API server."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from modelplane.api.rejected import Rejected
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.kubelet.cannot_start import CannotStart
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import Recorder
from modelplane.kubelet.pods import views
from modelplane.kubelet.pods.views import Waiting
from modelplane.kubelet.records import AgentDirectory, Attempt, ContainerDirectory, PodRecord
from modelplane.kubelet.runtime import pod_network
from modelplane.kubelet.runtime.container_cli import Choice, ContainerRuntimes
from modelplane.kubelet.runtime.container_runtime import PodContainer
from modelplane.kubelet.runtime.protocol import Runtime
from modelplane.kubelet.runtime.runtime_choice import Runtimes
from support.fake_docker import IMAGE, FakeDocker
from support.patience import PATIENCE_S

SLEEP = "import time; print('up', flush=True); time.sleep(100)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True)); {SLEEP}"
RECORD = PodRecord("default", "pod", "uid", "127.77.1.2")


@dataclass
class Api:
    """The objects that a pod may refer to, by kind and name."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)

    async def get(self, resource: Resource, name: str, _namespace: str | None = None) -> Object | None:
        return self.objects.get((resource.kind, name))


@dataclass
class Bench:
    """One pod's runtime on a machine whose container runtime is the stand-in."""

    engine: FakeDocker
    machine: Machine
    api: Api
    told: list[Waiting] = field(default_factory=list)
    whole: Object | None = None
    """The pod, if it has several containers."""

    @property
    def directory(self) -> ContainerDirectory:
        return self.machine.directory.get_pod(RECORD.uid).get_container("engine")

    async def runtime(self) -> Runtime:
        self.machine.directory.get_pod(RECORD.uid).write(RECORD)
        whole = self.whole or sleeping()
        network = pod_network.find_network(self.machine, RECORD, whole)
        found = await Runtimes(self.machine, RECORD, network=network).choose(self.directory, whole)
        if isinstance(found, PodContainer):
            return replace(found, least_wait_s=0.1, kill_again_s=0.2)
        return found

    async def start(self, pod: Object) -> Attempt:
        """Start the pod's one container."""
        return await (await self.runtime()).start(pod, self.directory, self.told.append)

    async def start_of_several(self, name: str) -> Attempt:
        """Start one of the pod's several containers."""
        assert self.whole is not None
        directory = self.machine.directory.get_pod(RECORD.uid).get_container(name)
        runtime = await self.runtime()
        return await runtime.start(views.select_container(self.whole, name), directory, self.told.append)

    async def refused(self, pod: Object) -> Rejected:
        with pytest.raises(CannotStart) as caught:
            await self.start(pod)
        return caught.value.rejected


@contextmanager
def a_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Provide one, with an image of Python."""
    engine = FakeDocker(tmp_path / "engine")
    engine.has(IMAGE, Entrypoint=["python3"])
    monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    api = Api()
    directory = AgentDirectory(tmp_path / "agent")
    directory.path.mkdir()
    # Nothing here makes an event.
    events = cast("Recorder", None)
    machine = Machine(cast("Client", api), directory, (), events, ContainerRuntimes(Choice.DOCKER))
    yield Bench(engine, machine, api)
    engine.stop()


def pod(*args: str, image: str = IMAGE, spec: dict[str, Any] | None = None, **fields: Any) -> Object:
    process_attempt = {"name": "engine", "image": image, "args": list(args), **fields}
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid"},
        "spec": {"containers": [process_attempt], **(spec or {})},
    }


def sleeping(source: str = SLEEP, **fields: Any) -> Object:
    return pod("-u", "-c", source, **fields)


async def wait_for(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


def status(bench: Bench, name: str = "modelplane-uid-engine-0") -> str:
    found: str = bench.engine.containers()[name]["State"]["Status"]
    return found


async def log_of(bench: Bench, attempt: Attempt, selection: Selection, *, follow: bool = False) -> str:
    parts = (await bench.runtime()).log(attempt, selection, follow=follow)
    return b"".join([part async for part in parts]).decode()
