"""The table of every process of a local fleet: how it starts, when it is ready, how it stops.

``after`` alone defines the order: a process starts after those that it names are ready, and stops after those
that name it have stopped.

A readiness check answers at once or within half a second, and an answer of any other kind is "not yet". The
TLS library is loaded only where it is needed: the standby never does.
"""

import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from modelplane.host import addresses, sockets
from modelplane.local.home import Home
from modelplane.local.kubernetes.control_plane import (
    ControlPlane,
    build_environment,
    list_clusters,
    list_control_planes,
)
from modelplane.local.settings import LocalSettings

_TIMEOUT_S = 0.5
POOL = "local"
"""The pool to which the Node of each local cluster belongs."""

LEADER = "supervisor"
"""The supervisor that acts; it is in no table, because it keeps the table."""

STANDBY = "standby"
"""The supervisor that takes over."""

CONTROL_PLANE = ("etcd", "control-plane")

_READY_PATH = (
    "/readyz?exclude=poststarthook/rbac/bootstrap-roles"
    "&exclude=poststarthook/scheduling/bootstrap-system-priority-classes"
)
"""Without the two steps for which an API server sleeps a second; it serves an administrator before them."""


class Check(Protocol):
    """One way to see readiness."""

    def is_ready(self, age_s: float) -> bool:
        """Return True if a process that was started ``age_s`` seconds ago is ready."""


@dataclass(frozen=True, slots=True)
class Lived:
    """Ready once it has lived for a while: a bad command line ends sooner."""

    seconds: float

    def is_ready(self, age_s: float) -> bool:
        """See ``Check``."""
        return age_s >= self.seconds


@dataclass(frozen=True, slots=True)
class Listens:
    """Ready once something accepts connections on a port of 127.0.0.1."""

    port: int

    def is_ready(self, age_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """See ``Check``."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), _TIMEOUT_S):
                return True
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class HealthyOnSocket:
    """Ready once ``path`` over HTTP on a Unix socket answers 200."""

    address: Path
    path: str

    def is_ready(self, age_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """See ``Check``."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_TIMEOUT_S)
                sockets.connect(connection, self.address)
                return _answers(connection, self.path)
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Healthy:
    """Ready once ``https://127.0.0.1:port/path`` answers 200 with a certificate of our authority."""

    port: int
    path: str
    authority: Path
    certificate: tuple[Path, Path] | None = None
    """The client's, and its key, where not everyone may ask."""

    def is_ready(self, age_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """See ``Check``."""
        import ssl  # noqa: PLC0415 - several megabytes that the standby does without

        try:
            context = ssl.create_default_context(cafile=str(self.authority))
            if self.certificate is not None:
                context.load_cert_chain(*self.certificate)
            with (
                socket.create_connection(("127.0.0.1", self.port), _TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                return _answers(connection, self.path)
        except OSError:
            return False


def _answers(connection: socket.socket, path: str) -> bool:
    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    return connection.recv(64).split(b" ")[1:2] == [b"200"]


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as it is meant to run."""

    name: str
    argv: tuple[str, ...]
    directory: Path
    ready: Check
    after: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    own_environment: bool = False
    """True for no variable of the user's but those by which every program finds its way."""
    grace_s: float = 10.0
    """Time between SIGTERM and SIGKILL."""
    cluster: str = ""
    """The cluster that it is part of, with which it may be stopped."""
    stopped: Callable[[], None] = lambda: None
    """Clean-up after it was stopped for good."""


def build_argv(*arguments: str) -> tuple[str, ...]:
    """Return the command line of a modelplane command, under this interpreter."""
    # -P: a file in the working directory must not stand in for a module.
    return (sys.executable, "-P", "-m", "modelplane.cli.main", *arguments)


def build_table(
    home: Home, settings: LocalSettings, binary: Path, only: Collection[str] = ()
) -> tuple[Process, ...]:
    """Return the processes of a home, those that others wait for first.

    ``only`` names the ones wanted; without it, all.
    """
    planes = list_control_planes(home, settings, binary)
    front, serving = planes[0], list_clusters(planes)
    everything = (
        _etcd(front),
        *(_control_plane(plane, runs_pods=plane in serving) for plane in planes),
        _controller(front),
        *(_agent(plane, settings, len(serving)) for plane in serving),
        _envoy(front, serving if settings.register else ()),
        Process(STANDBY, build_supervisor_argv(home, binary, only), home.root, Lived(0.0)),
    )
    return tuple(process for process in everything if not only or process.name in only)


def list_api_servers(processes: Iterable[Process]) -> tuple[str, ...]:
    """Return the names of the processes that the API servers of a fleet need."""
    return tuple(process.name for process in processes if process.name.endswith(CONTROL_PLANE))


def _etcd(plane: ControlPlane) -> Process:
    ready = HealthyOnSocket(plane.socket, "/health")
    return Process(
        "etcd", plane.build_etcd_argv(), plane.directory, ready, (), build_environment(), own_environment=True
    )


def _control_plane(plane: ControlPlane, *, runs_pods: bool) -> Process:
    argv = plane.build_argv(runs_pods=runs_pods)
    pki = plane.pki
    administrator = pki.find_certificate("admin"), pki.find_key("admin")
    ready = Healthy(plane.ports.api_server, _READY_PATH, pki.authority, administrator)
    about = (
        plane.name_process("control-plane"),
        argv,
        plane.directory,
        ready,
        ("etcd",),
        build_environment(),
    )
    return Process(*about, own_environment=True, cluster=plane.cluster)


def _controller(plane: ControlPlane) -> Process:
    home = plane.home
    argv = build_argv(
        "controller",
        f"--kubeconfig={home.controller_kubeconfig}",
        f"--gateway-dir={home.envoy}",
        f"--gateway-address=127.0.0.1:{plane.ports.gateway}",
    )
    return Process("controller", argv, home.root, Lived(1.0), (plane.name_process("control-plane"),))


def _agent(plane: ControlPlane, settings: LocalSettings, sharers: int) -> Process:
    home, pki = plane.home, plane.pki
    argv = build_argv(
        "agent",
        f"--kubeconfig={home.agent_kubeconfig}",
        f"--node={plane.node}",
        f"--pool={POOL}",
        f"--dir={home.agent}",
        f"--port={plane.ports.agent}",
        f"--tls-cert={pki.find_certificate('agent-serving')}",
        f"--tls-key={pki.find_key('agent-serving')}",
        f"--client-ca={pki.authority}",
        f"--pod-addresses={addresses.find_cidr(plane.place)}",
        f"--share={max(plane.place, 1)}/{sharers}",
        f"--cpu-devices={settings.cpu_devices}",
        f"--container-engine={settings.container_engine}",
        f"--private={plane.fleet.root}",
        *(["--host-commands"] if settings.host_commands else []),
    )
    return Process(
        plane.name_process("agent"),
        argv,
        home.root,
        Healthy(plane.ports.agent, "/healthz", pki.authority),
        (plane.name_process("control-plane"),),
        grace_s=40.0,
        cluster=plane.cluster,
        stopped=lambda: _stop_pods(home),
    )


def _envoy(plane: ControlPlane, serving: Iterable[ControlPlane]) -> Process:
    directory = plane.home.envoy
    # From its first start, so that no other program takes their ports before the controllers write routes.
    clusters = (f"--cluster={cluster.node}:{cluster.ports.workload_gateway}" for cluster in serving)
    argv = build_argv("envoy", f"--dir={directory}", f"--port={plane.ports.gateway}", *clusters)
    return Process("envoy", argv, directory, Listens(plane.ports.gateway))


def build_supervisor_argv(home: Home, binary: Path, only: Collection[str] = ()) -> tuple[str, ...]:
    """Return the command line of a supervisor: leader and standby have the same."""
    names = (f"--process={name}" for name in only)
    return build_argv("supervise", f"--home={home.root}", f"--binary={binary}", *names)


def _stop_pods(home: Home) -> None:
    from modelplane.kubelet.pods.pods import stop_all  # noqa: PLC0415 - large, and wanted only at the end

    stop_all(home.agent, grace_s=10.0)
