"""State shared by all pods of this machine."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.kube.client import Client
from modelplane.kubelet.local_devices import DiscoveredDevice
from modelplane.kubelet.pod_events import Recorder
from modelplane.kubelet.records import AgentDirectory
from modelplane.kubelet.runtime.container_cli import ContainerRuntimes
from modelplane.kubelet.volumes import mounts
from modelplane.kubelet.volumes.service_account import ApiServer


@dataclass(frozen=True, slots=True)
class Machine:
    """The agent's means and knowledge, as its pods use them."""

    client: Client
    directory: AgentDirectory
    devices: tuple[DiscoveredDevice, ...]
    events: Recorder
    container_runtimes: ContainerRuntimes = field(default_factory=ContainerRuntimes)
    host_commands: bool = False
    """True if a pod may run any program of this machine, and not only engines."""
    private: tuple[Path, ...] = ()
    """Directories with the files of the fleet, beside the agent's own."""

    api_server: ApiServer | None = None
    """The API server for pods that act as their service account."""

    @property
    def hidden(self) -> tuple[Path, ...]:
        """The directories that no process of a pod sees, unless it may run any program."""
        return (self.directory.path, *self.private)

    @property
    def programs(self) -> frozenset[Path]:
        """The directories of the programs that the agent and its pods run, which no pod may write to."""
        return mounts.list_programs(os.environ)

    @property
    def closed(self) -> frozenset[Path]:
        """The directories over which no pod mounts a volume, besides those of the system."""
        directories = (*self.hidden, Path("~").expanduser())
        return self.programs.union(directories, (directory.resolve() for directory in directories))
