"""The node agent's process: its identity, its tasks, its end.

It ends at SIGTERM without touching its pods. The next agent of the same directory takes them over.
"""

import asyncio
import fcntl
import logging
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

from modelplane.host import file_system
from modelplane.host.errors import LocalError
from modelplane.host.signals import run_until_signalled
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet import node
from modelplane.kubelet.local_devices import DiscoveredDevice, Share, discover, publish_devices
from modelplane.kubelet.log_server import LogServer, ServerSettings
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.node import NodeSettings
from modelplane.kubelet.pod_events import Recorder
from modelplane.kubelet.pods.pods import Pods
from modelplane.kubelet.records import AgentDirectory
from modelplane.kubelet.runtime.container_cli import Choice, ContainerRuntimes
from modelplane.kubelet.volumes.provisioner import Provisioner
from modelplane.kubelet.volumes.service_account import ApiServer

_REQUEST_S = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Options of the command line."""

    kubeconfig: Path
    node: str
    pool: str
    directory: Path
    server: ServerSettings
    addresses: IPv4Network
    """Those that the API calls the pods by."""
    share: Share
    container_engine: Choice = Choice.AUTO
    host_commands: bool = False
    private: tuple[Path, ...] = ()
    """Directories with the files of the fleet, which the processes of pods do not see."""


def run(settings: AgentSettings) -> None:
    """Be the node agent until SIGTERM or SIGINT.

    Raises ``LocalError`` where another agent uses the directory, or the port is taken.
    """
    # Engines must not inherit the lock that the supervisor gave this process.
    file_system.keep_private()
    settings.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (settings.directory / "agent.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalError(
                f'cannot run the node agent: another agent uses directory "{settings.directory}": stop '
                "that agent, or choose another --dir"
            ) from error
        if asyncio.run(run_until_signalled(_serve(settings))):
            _log.info("the agent stopped; its pods keep running")


async def _serve(settings: AgentSettings) -> None:
    devices = await asyncio.to_thread(discover, settings.share)
    async with Client.from_kubeconfig(
        str(settings.kubeconfig), field_manager="modelplane-agent", timeout_s=_REQUEST_S
    ) as client:
        about = NodeSettings(settings.node, settings.pool, settings.server.port, settings.share)
        events = Recorder(client, settings.node)
        machine = Machine(
            client,
            AgentDirectory(settings.directory),
            devices,
            events,
            ContainerRuntimes(settings.container_engine),
            settings.host_commands,
            settings.private,
            ApiServer.from_kubeconfig(settings.kubeconfig),
        )
        pods = Pods(machine, settings.node, settings.addresses)
        logs = LogServer(settings.server, pods.find)
        try:
            server = await logs.start()
        except OSError as error:
            raise LocalError(
                f"cannot serve logs on port {settings.server.port}: {error.strerror}: choose another --port"
            ) from error
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(node.keep_alive(client, about, partial(_register, client, about, devices)))
                tasks.create_task(events.run())
                tasks.create_task(pods.run())
                tasks.create_task(Provisioner(machine, settings.node).run())
        finally:
            server.close()


async def _register(client: Client, about: NodeSettings, devices: tuple[DiscoveredDevice, ...]) -> Object:
    registered = await node.register(client, about)
    await publish_devices(client, registered, devices)
    _log.info('node "%s" is registered with %d device(s)', about.name, len(devices))
    return registered
