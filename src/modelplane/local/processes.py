"""The table of every process of a local fleet: how it starts, when it is ready, how it stops.

``after`` is the only statement of order: nothing starts before what it names is
ready, and nothing stops before those that name it have stopped.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.local.control_plane import ENVIRONMENT, NODE, ControlPlane
from modelplane.local.home import Home
from modelplane.local.ports import Ports
from modelplane.local.readiness import Check, Healthy, HealthyOnSocket, Listens, Lived

POOL = "local"
"""The pool of the local cluster to which this machine's Node belongs."""

LEADER = "supervisor"
"""The supervisor that acts; it is in no table, because it keeps the table."""

STANDBY = "standby"
"""The supervisor that takes over."""

_POD_GRACE_S = 10.0

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as it is meant to run."""

    name: str
    argv: tuple[str, ...]
    directory: Path
    ready: Check
    after: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 10.0
    """How long it may take to end after SIGTERM, before it is killed."""
    stopped: Callable[[], None] = lambda: None
    """What is left to do once it has been stopped for good."""


def modelplane(*arguments: str) -> tuple[str, ...]:
    """Return the command line of one of our own commands, under this very interpreter."""
    # -P: a file in the working directory must not stand in for a module.
    return (sys.executable, "-P", "-m", "modelplane.cli.main", *arguments)


def table(home: Home, ports: Ports, binary: Path, only: Collection[str] = ()) -> tuple[Process, ...]:
    """Return the processes of a home, those that others wait for first.

    ``only`` names the ones wanted; without it, all.
    """
    plane = ControlPlane(home, ports, binary)
    everything = (*_control_plane(plane), *_modelplane(plane), _standby(plane, only))
    return tuple(process for process in everything if not only or process.name in only)


def _control_plane(plane: ControlPlane) -> tuple[Process, ...]:
    authority = plane.pki.authority

    def program(name: str, argv: tuple[str, ...], ready: Check, after: tuple[str, ...]) -> Process:
        return Process(name, argv, plane.directory, ready, after, ENVIRONMENT)

    return (
        program("etcd", plane.etcd(), HealthyOnSocket(plane.socket, "/health"), ()),
        program(
            "kube-apiserver",
            plane.api_server(),
            Healthy(plane.ports.api_server, "/readyz", authority),
            ("etcd",),
        ),
        program(
            "kube-controller-manager",
            plane.controller_manager(),
            Healthy(plane.ports.controller_manager, "/healthz", authority),
            ("kube-apiserver",),
        ),
        program(
            "kube-scheduler",
            plane.scheduler(),
            Healthy(plane.ports.scheduler, "/readyz", authority),
            ("kube-apiserver",),
        ),
    )


def _modelplane(plane: ControlPlane) -> tuple[Process, ...]:
    home, ports, pki = plane.home, plane.ports, plane.pki
    controller = modelplane(
        "controller",
        f"--kubeconfig={home.controller_kubeconfig}",
        f"--gateway-dir={home.envoy}",
        f"--front-door=127.0.0.1:{ports.gateway}",
    )
    agent = modelplane(
        "agent",
        f"--kubeconfig={home.agent_kubeconfig}",
        f"--node={NODE}",
        f"--pool={POOL}",
        f"--dir={home.agent}",
        f"--port={ports.agent}",
        f"--tls-cert={pki.certificate('agent-serving')}",
        f"--tls-key={pki.key('agent-serving')}",
        f"--client-ca={pki.authority}",
    )
    gateway = modelplane("envoy", f"--dir={home.envoy}", f"--port={ports.gateway}")
    after = ("kube-apiserver",)
    return (
        Process("controller", controller, home.root, Lived(1.0), after),
        Process(
            "agent",
            agent,
            home.root,
            Listens(ports.agent),
            after,
            grace_s=40.0,
            stopped=lambda: _stop_pods(home),
        ),
        Process("envoy", gateway, home.envoy, Listens(ports.gateway)),
    )


def _standby(plane: ControlPlane, only: Collection[str]) -> Process:
    argv = supervisor_argv(plane.home, plane.binary, only)
    return Process(STANDBY, argv, plane.home.root, Lived(0.0))


def supervisor_argv(home: Home, binary: Path, only: Collection[str] = ()) -> tuple[str, ...]:
    """Return the command line of a supervisor: leader and standby have the same."""
    names = (f"--process={name}" for name in only)
    return modelplane("supervise", f"--home={home.root}", f"--binary={binary}", *names)


def _stop_pods(home: Home) -> None:
    from modelplane.local.agent.pods import stop_all  # noqa: PLC0415 - large, and wanted only at the end

    stop_all(home.agent, grace_s=_POD_GRACE_S)
