"""Envoy of this machine, which reads its configuration from a directory."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.kube.informer import Informer
from modelplane.proxy import gateway_load, module
from modelplane.proxy.interface import GatewayAddress
from modelplane.proxy.ledger_file import LedgerFile
from modelplane.proxy.usage_files import USAGE_LOG

Write = Callable[[Path, Mapping[str, str]], bool]
"""Writes files to a directory; returns True if any of them changed."""


class GatewayDirectory:
    """A ``Proxy`` that is the gateway of the control plane and of the clusters on this machine."""

    serves_clusters = True
    usage_log = USAGE_LOG
    gateways = 1
    ledger_log = ""
    informers: tuple[Informer, ...] = ()

    def __init__(self, directory: Path, address: str, write: Write) -> None:
        """``address`` is the ``HOST:PORT`` at which it accepts requests."""
        host, _, port = address.rpartition(":")
        self.listens = (host, int(port))
        self._address = address
        self._directory = directory
        self._write = write
        self._ledger = LedgerFile(directory)

    async def bring(self, files: Mapping[str, str]) -> bool:
        """Write the files that differ."""
        return await asyncio.to_thread(self._write, self._directory, files)

    def list_formers(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the files below a folder."""
        paths = (self._directory / folder).glob("*.json")
        return tuple(path.relative_to(self._directory).as_posix() for path in paths)

    def read_former(self, path: str) -> str:
        """Return a file of the directory; empty if there is none."""
        file = self._directory / path
        return file.read_text(errors="replace") if file.exists() else ""

    def find_former_problem(self) -> str:
        """Return nothing: ``former`` raises ``OSError`` for a file that cannot be read."""
        return ""

    async def sum_usage(self) -> Ledger | None:
        """Return the sums of the records in the directory."""
        return await asyncio.to_thread(self._ledger.look)

    async def load(self) -> Load:
        """Return what Envoy counts."""
        return await asyncio.to_thread(gateway_load.read_directory, self._directory)

    def find_address(self) -> GatewayAddress:
        """Return the address at which Envoy accepts requests."""
        return GatewayAddress(self._address, without_module=module.find_missing(self._directory))
