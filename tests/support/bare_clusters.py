"""A Kubernetes cluster without Modelplane, on which a page installs it.

This machine cannot run the pods of an installation, which have an image. So they are reported as running, a
load balancer gets an address, and the controllers run as a process of this machine.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.install.installation_options import CONTROLLER, GATEWAY
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.errors import KubernetesError
from modelplane.kube.resources import Object
from modelplane.local.home import Home
from support.fleets import ControlPlane, control_plane_of
from support.patience import LOOK_S

SYSTEM = "modelplane-system"
_ADDRESS = "203.0.113.10"
"""Of the load balancer; nothing listens there."""
_NODE = "modelplane.test/node"
"""Keeps a pod until its node has ended it."""


@dataclass(slots=True)
class _StandIns:
    """What a cloud and its nodes do for an installation, until it is told to stop."""

    plane: ControlPlane
    folder: Path
    stopped: threading.Event = field(default_factory=threading.Event)
    controller: "subprocess.Popen[bytes] | None" = None

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        async with Client.from_kubeconfig(str(self.plane.kubeconfig)) as client:
            while not self.stopped.is_set():
                # An object may go between a look and a patch.
                with suppress(KubernetesError):
                    await self._look(client)
                await asyncio.sleep(LOOK_S)
        self._stop_controller()

    async def _look(self, client: Client) -> None:
        for pod in (await client.list(resources.PODS, SYSTEM)).items:
            await self._look_at_pod(client, pod)
        service = await client.get(resources.SERVICES, GATEWAY, SYSTEM)
        if service and service["spec"]["type"] == "LoadBalancer" and not service["status"]["loadBalancer"]:
            ingress = {"status": {"loadBalancer": {"ingress": [{"ip": _ADDRESS}]}}}
            await client.patch(resources.SERVICES, GATEWAY, ingress, SYSTEM, subresource="status")
        if await client.get(resources.DEPLOYMENTS, CONTROLLER, SYSTEM):
            self._start_controller()

    async def _look_at_pod(self, client: Client, pod: Object) -> None:
        """Do what a node does: a pod is there until its processes have ended."""
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            if name.startswith(CONTROLLER):
                self._stop_controller()
            await client.patch(resources.PODS, name, {"metadata": {"finalizers": []}}, SYSTEM)
        elif pod.get("status", {}).get("phase") != "Running":
            await client.patch(resources.PODS, name, {"metadata": {"finalizers": [_NODE]}}, SYSTEM)
            await client.patch(resources.PODS, name, _running(pod), SYSTEM, subresource="status")

    def _start_controller(self) -> None:
        if self.controller:
            return
        options = (f"--gateway-service={GATEWAY}", f"--kubeconfig={self.plane.kubeconfig}")
        command = (sys.executable, "-m", "modelplane.cli.main", "controller", "--leader-elect", *options)
        with (self.folder / "controller.log").open("wb") as log:
            self.controller = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _stop_controller(self) -> None:
        if self.controller:
            self.controller.terminate()
            self.controller.wait()
            self.controller = None


def _running(pod: Object) -> Object:
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready", "ContainersReady")]
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {"status": {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}}


@contextmanager
def open_bare_cluster(home: Home, binary: Path, folder: Path) -> Iterator[ControlPlane]:
    """Run a cluster, and what its cloud and its nodes do."""
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane_of(home, binary))
        stand_ins = _StandIns(plane, folder)
        thread = threading.Thread(target=stand_ins.run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stand_ins.stopped.set)
        yield plane
