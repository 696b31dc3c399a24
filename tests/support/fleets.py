"""Running control planes and fleets, as tests hold them."""

import asyncio
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.kubelet.records import AgentDirectory
from modelplane.local import binary, setup
from modelplane.local.home import Home
from modelplane.local.kubernetes.control_plane import list_control_planes
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.processes import CONTROL_PLANE, Healthy
from support.patience import LOOK_S, PATIENCE_S

PROCESSES = (
    "supervisor",
    "etcd",
    "control-plane",
    "controller",
    "agent",
    "envoy",
    "standby",
)
"""Everything that a fleet runs, its engines excepted."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane."""

    home: Home
    binary: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.home.kubeconfig


@contextmanager
def control_plane_of(home: Home, binary: Path) -> Iterator[ControlPlane]:
    """Run the processes of a control plane, and nothing of Modelplane on it."""
    setup.make_home(home)
    [plane] = list_control_planes(home, setup.set_up(home))
    lifecycle.start(home, binary, CONTROL_PLANE)
    administrator = plane.pki.find_certificate("admin"), plane.pki.find_key("admin")
    served = Healthy(plane.ports.api_server, "/readyz", plane.pki.authority, administrator)
    try:
        asyncio.run(lifecycle.wait_until_running(home, CONTROL_PLANE, PATIENCE_S, lambda _record: None))
        # An API server writes its roles, without which only an administrator is served, a second later.
        _wait(lambda: served.is_ready(0.0), "the API server writes no roles")
        yield ControlPlane(home, binary)
    finally:
        lifecycle.stop(home)


@dataclass(frozen=True, slots=True)
class Fleet(ControlPlane):
    """A running fleet of this machine."""

    python: str = sys.executable
    """The Python whose Modelplane is asked."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further ones of the environment."""

    def modelplane(self, *arguments: str, check: bool = True) -> str:
        """Run a command of ours against the fleet and return what it prints."""
        command = (self.python, "-m", "modelplane.cli.main", *arguments)
        return self._run(command, check, MODELPLANE_HOME=str(self.home.root), KUBECONFIG="")

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        """Run the binary's kubectl against the fleet and return what it prints."""
        kubectl = binary.build_kubectl_argv(self.binary, arguments)
        return self._run(
            kubectl, check, KUBECONFIG=str(self.kubeconfig), KUBECACHEDIR=str(self.home.kubectl_cache)
        )

    def wait_until_served(self, service: str, namespace: str) -> str:
        """Wait until a service is Ready and the gateway has read its route; return its address.

        On a busy machine, a service can be Ready a moment before that.
        """
        named = (service, "-n", namespace)
        self.kubectl("wait", "--for=condition=Ready", "ms", *named, f"--timeout={PATIENCE_S}s")
        address = self.kubectl("get", "ms", *named, "-o", "jsonpath={.status.address}")
        _wait(lambda: not _lacks_route(address), f"{address} is not routed")
        return address

    def _run(self, command: Sequence[str], check: bool, **variables: str) -> str:
        done = subprocess.run(
            command,
            env=os.environ | self.variables | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout if check else done.stdout + done.stderr


@contextmanager
def fleet_of_processes(folder: Path) -> Iterator[Fleet]:
    """Run a fleet without containers and host commands, with a tenant of one namespace."""
    fleet = Fleet(Home(folder), binary.find_or_build(lambda _progress: None))
    try:
        fleet.modelplane("up", "--container-engine=none")
        fleet.kubectl("create", "namespace", "tenant")
        fleet.kubectl(
            "create", "rolebinding", "-n", "tenant", "tenant", "--clusterrole=edit", "--user=tenant"
        )
        # A controller puts together what the role permits.
        may = ("auth", "can-i", "create", "pods", "-n", "tenant", "--as=tenant")
        _wait(lambda: fleet.kubectl(*may, check=False).startswith("yes"), "the tenant may do nothing", LOOK_S)
        yield fleet
    finally:
        fleet.modelplane("down")


def find_engines(home: Home) -> dict[str, int]:
    """Return the pids of the engines that run and of their supervisors, by the name of their cluster."""
    pids = {}
    for place, agent in (
        ("", home.agent),
        *((f"{each.name}-", each / "agent") for each in home.clusters.glob("*")),
    ):
        for pod in AgentDirectory(agent).list_pods():
            for attempt in pod.list_attempts():
                for name, process in (("engine", attempt.engine), ("shim", attempt.shim)):
                    if process is not None and process.alive:
                        pids[f"{place}{name}"] = process.pid
    return pids


def _wait(holds: Callable[[], bool], otherwise: str, pause_s: float = 0.1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(pause_s)


def _lacks_route(address: str) -> bool:
    """Return true if the gateway itself answers that no endpoint serves a service."""
    try:
        urllib.request.urlopen(f"{address}/v1/models", timeout=PATIENCE_S).close()
    except urllib.error.HTTPError as error:
        return error.code == 503 and b"cannot serve ModelService" in error.read()
    except urllib.error.URLError:
        return False  # a certificate that is not the system's, for example
    return False
