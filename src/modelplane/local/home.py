"""Home of a local fleet: one directory, readable by its owner only.

Everything that must survive a restart is below it, so moving it away or
deleting it is a complete reset. Directories are 0700 and files 0600: the keys
in it give full control of the fleet. An existing fleet needs far less free space
than a new one, so that its processes can be started again.
"""

import os
from pathlib import Path
from typing import NamedTuple

ENVIRONMENT_VARIABLE = "MODELPLANE_HOME"

_NEW_BYTES = 1 << 30
"""Models, logs, and all that etcd sets aside before anything is in it."""

_KNOWN_BYTES = 128 << 20
"""Preallocated by etcd when its write-ahead log is full, and as much again for logs and records."""


class Home(NamedTuple):
    """The paths of one local fleet."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for people."""
        return self.root / "kubeconfig"

    @property
    def controller_kubeconfig(self) -> Path:
        """The identity of ``modelplane controller``."""
        return self.root / "controller.kubeconfig"

    @property
    def agent_kubeconfig(self) -> Path:
        """The identity of ``modelplane agent``: a node, and no more."""
        return self.root / "agent.kubeconfig"

    @property
    def settings(self) -> Path:
        """Settings chosen once for this fleet, such as its ports."""
        return self.root / "settings.json"

    @property
    def pki(self) -> Path:
        """The certificate authority, certificates and keys."""
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        """The data of etcd, and its sockets."""
        return self.root / "etcd"

    @property
    def authentication(self) -> Path:
        """The API server's configuration for clients without a certificate."""
        return self.root / "authentication.json"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Locks and records of the processes that run now."""
        return self.root / "run"

    @property
    def envoy(self) -> Path:
        """The configuration that the controllers write for Envoy."""
        return self.root / "envoy"

    @property
    def agent(self) -> Path:
        """The node agent's records of its pods."""
        return self.root / "agent"

    @property
    def kubectl_cache(self) -> Path:
        """kubectl's discovery cache."""
        return self.root / "kubectl-cache"

    @property
    def clusters(self) -> Path:
        """The directories of further clusters."""
        return self.root / "clusters"

    def get_cluster(self, name: str) -> "ClusterHome":
        """Return where a further cluster keeps its things."""
        return ClusterHome(self.clusters / name)

    @property
    def turn(self) -> Path:
        """The file that a command locks while it starts or stops the fleet."""
        return self.run / "turn.lock"

    @property
    def down(self) -> Path:
        """Present while everything is to be stopped, pods included."""
        return self.run / "down"

    def find_hold(self, cluster: str) -> Path:
        """Return the file that is present while one cluster is to be stopped."""
        return self.run / f"{cluster}.held"

    def log(self, process: str) -> Path:
        """Return the log of a process."""
        return self.logs / f"{process}.log"

    def find_earlier_log(self, process: str) -> Path:
        """Return where the log of a process goes when it has become long."""
        return self.logs / f"{process}.log.1"

    def record(self, process: str) -> Path:
        """Return the file in which the supervisor describes a process."""
        return self.run / f"{process}.json"

    def lock(self, process: str) -> Path:
        """Return the file that a process holds locked for as long as it lives."""
        return self.run / f"{process}.lock"

    @property
    def directories(self) -> tuple[Path, ...]:
        """Every directory, parents first."""
        below = (self.pki, self.etcd, self.logs, self.run, self.envoy, self.agent, self.clusters)
        return (self.root, *below, self.kubectl_cache)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that lies directly in the root."""
        identities = (self.kubeconfig, self.controller_kubeconfig, self.agent_kubeconfig)
        return (*identities, self.authentication, self.settings)

    def has_other_contents(self) -> bool:
        """Return True if the root is in use for something other than a fleet."""
        ours = {path.name for path in (*self.directories, *self.files)}
        return (
            not self.settings.exists()
            and self.root.is_dir()
            and any(path.name not in ours for path in self.root.iterdir())
        )

    def create(self) -> None:
        """Make the directories that are missing and keep others out of all of them."""
        for directory in self.directories:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)


class ClusterHome(Home):
    """The part of a home for one further cluster: its certificates and its node agent's records."""

    @property
    def directories(self) -> tuple[Path, ...]:
        """Every directory, parents first."""
        return (self.root, self.pki, self.agent)


def choose_home(chosen: Path | None) -> Home:
    """Return the home chosen on the command line or, without one, the default of this user."""
    if chosen is None and (variable := os.environ.get(ENVIRONMENT_VARIABLE)):
        chosen = Path(variable)
    if chosen is None:
        import platformdirs  # noqa: PLC0415 - not needed where a home is named

        chosen = platformdirs.user_data_path("modelplane", appauthor=False)
    return Home(chosen.expanduser().absolute())


def find_space_problem(home: Home) -> str | None:
    """Return that the disk has too little space, and the remedy; None if it has enough.

    Raise ``OSError`` if that cannot be read.
    """
    import shutil  # noqa: PLC0415  many commands read this module, and few ask for room

    needed = _KNOWN_BYTES if home.settings.exists() else _NEW_BYTES
    free = shutil.disk_usage(home.root).free
    if free >= needed:
        return None
    return (
        f"only {free >> 20} MiB are free at {home.root}, and {('its' if home.settings.exists() else 'a')} "
        f"fleet requires {needed >> 20} MiB: free some space"
    )
