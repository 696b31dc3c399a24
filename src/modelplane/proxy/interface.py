"""Interface of the gateway's Envoy: its configuration and its address."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.kube.informer import Informer

FLEET_LISTENER = "front-door"
"""Name of the listener of the services."""

Write = Callable[[Path, Mapping[str, str]], bool]
"""Writes files to a directory; returns True if any of them changed."""


def cluster_listener(cluster: str) -> str:
    """Return the name of the listener of an InferenceCluster's own gateway."""
    return f"cluster-{cluster}"


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Address of the gateway for clients."""

    address: str = ""
    """``host:port``, or a host if the port is that of its scheme; empty while there is none."""
    problem: str = ""
    """Reason why there is none, if known."""
    without_module: str = ""
    """Reason why Envoy runs without the gateway module; empty if it has it."""
    tls_problem: str = ""
    """Problem of its certificates."""
    asks_for_keys: bool = False
    """True if its present configuration admits requests with a key only."""


class Proxy(Protocol):
    """An Envoy as the controllers see it: it takes a configuration, and has an address."""

    @property
    def listens(self) -> tuple[str, int]:
        """Address and port of the gateway's listener."""

    @property
    def serves_clusters(self) -> bool:
        """Return True if it is also the gateway of the inference clusters themselves."""

    @property
    def usage_log(self) -> str:
        """The ``usage_log`` of the gateway's listener."""

    @property
    def gateways(self) -> int:
        """Return the number of Envoys that serve with its files, at least 1."""

    @property
    def ledger_log(self) -> str:
        """The ``ledger_log`` of the gateway's listener, where it asks for keys."""

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Informers to run, and to sync before the first write."""

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Write the proxy's files; return True if any of them changed."""

    def list_formers(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the private files below a folder, such as ``tls/``, as of ``read_former``."""

    def read_former(self, path: str) -> str:
        """Return a file as it was last written, also by an earlier process; empty if there is none."""

    def find_former_problem(self) -> str | None:
        """Return why the files that were written last cannot be read; None if they can, or none are."""

    async def sum_usage(self) -> Ledger | None:
        """Return what every gateway has counted; None while it is still being read.

        Raises ``OSError`` or ``KubernetesError``.
        """

    async def load(self) -> Load:
        """Return what every gateway counts of requests, and which of them could not be asked."""

    def find_address(self) -> GatewayAddress:
        """Return its address for clients."""
