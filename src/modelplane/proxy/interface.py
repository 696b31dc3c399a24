"""The interface of the gateway's Envoy: how it is configured, and where it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from modelplane.kube.informer import Informer

FLEET_LISTENER = "front-door"
"""The listener of the services."""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Address of the gateway for clients."""

    address: str = ""
    """``host:port``, or a host whose port is 80; empty while there is none."""
    problem: str = ""
    """Why there is none, where that is known."""


class Proxy(Protocol):
    """An Envoy as the controllers see it: what takes its configuration, and where it answers."""

    @property
    def listens(self) -> tuple[str, int]:
        """The address and port of the gateway's listener."""

    @property
    def serves_clusters(self) -> bool:
        """Return True if it is also the gateway of the inference clusters themselves."""

    @property
    def informers(self) -> tuple[Informer, ...]:
        """What has to be read before anything is written, if anything has."""

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Make the proxy's files these; return whether they were not yet."""

    def address(self) -> GatewayAddress:
        """Return where clients find it."""
