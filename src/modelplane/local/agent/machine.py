"""What all pods of this machine share."""

from dataclasses import dataclass

from modelplane.kube.client import Client
from modelplane.local.agent.devices import DiscoveredDevice
from modelplane.local.agent.events import Recorder
from modelplane.local.agent.records import AgentDirectory


@dataclass(frozen=True, slots=True)
class Machine:
    """The agent's means and knowledge, as its pods use them."""

    client: Client
    directory: AgentDirectory
    devices: tuple[DiscoveredDevice, ...]
    events: Recorder
