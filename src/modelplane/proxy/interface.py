"""Interface of the gateway's Envoy: its configuration and its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from modelplane.kube.informer import Informer

FLEET_LISTENER = "front-door"
"""Name of the listener of the services."""


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Address of the gateway for clients."""

    address: str = ""
    """``host:port``, or a host if the port is 80; empty while there is none."""
    problem: str = ""
    """Reason why there is none, if known."""


class Proxy(Protocol):
    """An Envoy as the controllers see it: it takes a configuration, and has an address."""

    @property
    def listens(self) -> tuple[str, int]:
        """Address and port of the gateway's listener."""

    @property
    def serves_clusters(self) -> bool:
        """Return True if it is also the gateway of the inference clusters themselves."""

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Informers to run, and to sync before the first write."""

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Write the proxy's files; return True if any of them changed."""

    def address(self) -> GatewayAddress:
        """Return its address for clients."""
