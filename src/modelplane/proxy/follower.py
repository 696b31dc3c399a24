"""Follower of the published configuration: it writes the files of an Envoy in a cluster.

One rule: Envoy keeps its configuration until a complete new one is published. While
the API server is down, or no controller runs, nothing changes.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path

from modelplane.gateway.envoy.files import LISTENERS
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.proxy.config_maps import SELECTOR, Incomplete, read
from modelplane.proxy.directory import Write

_log = logging.getLogger(__name__)

_SETTLE_S = 0.05
_CLEAN_UP_S = 5.0
_RETRY_S = 5.0

_WRITTEN = "published"
"""File that marks the content of the directory as published, for a restart after a crash."""


class GatewayFollower:
    """Writes the published configuration to one directory."""

    def __init__(
        self, client: Client, namespace: str, *, directory: Path, write: Write, listens: tuple[str, int]
    ) -> None:
        """``listens`` is the address and port at which this Envoy accepts requests."""
        self._config_maps = Informer(
            client,
            resources.CONFIG_MAPS,
            namespace=namespace,
            labels=SELECTOR,
            on_change=lambda _item: self._touched.set(),
        )
        self._directory = directory
        self._write = write
        self._listens = listens
        self._touched = asyncio.Event()
        self._problem = ""
        self._written = (directory / _WRITTEN).exists()

    @property
    def problem(self) -> str:
        """Reason why Envoy has no published configuration; empty while it serves one, also an earlier one."""
        if self._written:
            return ""
        if not self._config_maps.synced:
            return self._config_maps.problem or "the configuration is still being read"
        return self._problem

    async def run(self) -> None:
        """Write each published configuration, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._config_maps.run())
            await self._config_maps.wait_until_synced()
            while True:
                await self._bring()
                await self._touched.wait()
                await asyncio.sleep(_SETTLE_S)
                self._touched.clear()

    async def _bring(self) -> None:
        found = await asyncio.to_thread(read, tuple(self._config_maps))
        if found is None:
            self._say("")  # nothing is published, or not any more: Envoy keeps its configuration
        elif isinstance(found, Incomplete):
            self._say(found.reason)
        else:
            await self._replace(found)

    async def _replace(self, files: dict[str, str]) -> None:
        try:
            changed = await asyncio.to_thread(self._write, self._directory, listening(files, self._listens))
            (self._directory / _WRITTEN).touch(0o600)
        except Exception as error:  # noqa: BLE001 - Envoy keeps its configuration, and the next attempt may succeed
            self._say(f"cannot write the configuration: {error!r}")
            asyncio.get_running_loop().call_later(_RETRY_S, self._touched.set)
            return
        self._say("")
        self._written = True
        if changed:
            _log.info("gateway configuration written")
            # Resources of the previous configuration are removed once Envoy no longer uses them.
            asyncio.get_running_loop().call_later(_CLEAN_UP_S, self._touched.set)

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.warning("envoy keeps what it has: %s", problem)
        self._problem = problem


def listening(files: Mapping[str, str], at: tuple[str, int]) -> dict[str, str]:
    """Return files whose listeners accept requests at an address and port."""
    listeners = json.loads(files[LISTENERS])
    for listener in listeners["resources"]:
        listener["address"]["socket_address"] = {"address": at[0], "port_value": at[1]}
    return {**files, LISTENERS: json.dumps(listeners, sort_keys=True, separators=(",", ":")) + "\n"}
