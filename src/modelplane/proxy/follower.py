"""Follower of the published configuration, beside an Envoy in a cluster: it writes Envoy's files.

One rule: Envoy keeps what it has until there is a complete configuration to put
in its place. While the API server is away, or no controller runs, nothing changes.
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
"""The file that says that what is in the directory was once published, for whoever comes after a crash."""


class GatewayFollower:
    """Brings one directory to what is published."""

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
        """Why Envoy does not serve what is published; empty while it serves that, or what it had before."""
        if self._written:
            return ""
        if not self._config_maps.synced:
            return self._config_maps.problem or "the configuration is still being read"
        return self._problem

    async def run(self) -> None:
        """Write whatever is published, until cancelled."""
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
            self._say("")  # nothing is published, or no more: what Envoy has stays
        elif isinstance(found, Incomplete):
            self._say(found.reason)
        else:
            await self._replace(found)

    async def _replace(self, files: dict[str, str]) -> None:
        try:
            changed = await asyncio.to_thread(self._write, self._directory, listening(files, self._listens))
            (self._directory / _WRITTEN).touch(0o600)
        except Exception as error:  # noqa: BLE001 - Envoy goes on with what it has, and the next try may do
            self._say(f"cannot write the configuration: {error!r}")
            asyncio.get_running_loop().call_later(_RETRY_S, self._touched.set)
            return
        self._say("")
        self._written = True
        if changed:
            _log.info("gateway configuration written")
            # What the change left behind is cleaned up once Envoy has moved on from it.
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
