"""Follower of the published configuration: it writes the files of an Envoy in a cluster.

One rule: Envoy keeps its configuration until a complete new one is published. While
the API server is down, or no controller runs, nothing changes.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path

from modelplane.api.meta import GATEWAY_NAMESPACE, Object
from modelplane.gateway.envoy.envoy_names import LISTENERS, WITH_MODULE, WITH_NEW_MODULE
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.proxy.interface import Write
from modelplane.proxy.publication import SELECTOR, Channel, Incomplete, Read, read

_log = logging.getLogger(__name__)

_CLEAN_UP_S = 5.0

_WRITTEN = "published"
"""File that marks the content of the directory as published, for a restart after a crash."""


class GatewayFollower:
    """Writes the published configuration to one directory."""

    def __init__(
        self, client: Client, namespace: str, *, directory: Path, write: Write, listens: tuple[str, int]
    ) -> None:
        """``listens`` is the address and port at which this Envoy accepts requests."""
        self._config_maps, self._secrets = (
            Informer(
                client,
                channel.resource,
                namespace=where,
                labels=SELECTOR,
                on_change=lambda _item: self._touched.set(),
                on_answer=lambda _informer: self._touched.set(),
            )
            for channel, where in ((Channel.PUBLIC, namespace), (Channel.PRIVATE, GATEWAY_NAMESPACE))
        )
        self._directory = directory
        self._write = write
        self._listens = listens
        self._touched = asyncio.Event()
        self._problem = ""
        self._written = (directory / _WRITTEN).exists()

    @property
    def problem(self) -> str | None:
        """Reason why Envoy has no published configuration; None while it serves one, also an earlier one."""
        if self._written:
            return None
        if not self._config_maps.synced:
            return self._config_maps.problem or "the configuration is still being read"
        return self._problem or None

    async def run(self) -> None:
        """Write each published configuration, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._config_maps.run())
            group.create_task(self._secrets.run())
            await self._config_maps.wait_until_synced()
            while True:
                files = await asyncio.to_thread(_read, tuple(self._config_maps), tuple(self._secrets))
                if files is None:
                    self._say("")  # nothing is published, or not any more: Envoy keeps its configuration
                elif isinstance(files, Incomplete):
                    self._say(": ".join(filter(None, (files.reason, self._secrets.problem))))
                else:
                    await self._replace(files)
                await self._touched.wait()
                await asyncio.sleep(0.05)
                self._touched.clear()

    async def _replace(self, files: dict[str, str]) -> None:
        try:
            changed = await asyncio.to_thread(
                self._write, self._directory, set_listeners(files, self._listens)
            )
            (self._directory / _WRITTEN).touch(0o600)
        except Exception as error:  # noqa: BLE001 - Envoy keeps its configuration, and the next attempt may succeed
            # Not its representation, which may have the content of a file.
            self._say(f"cannot write the configuration: {type(error).__name__}: {error}")
            asyncio.get_running_loop().call_later(5.0, self._touched.set)
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


def _read(config_maps: tuple[Object, ...], secrets: tuple[Object, ...]) -> dict[str, str] | Incomplete | None:
    """Return the published files, with the private ones that they need, and no others."""
    published = read(config_maps)
    if not isinstance(published, Read):
        return published
    if WITH_MODULE not in published.files:
        # Its listeners are open: an Envoy that asks for keys would not ask after its next start.
        return Incomplete("controllers of an earlier version have written the configuration: update them")
    if not published.private:
        return published.files
    private = read(secrets, Channel.PRIVATE)
    if isinstance(private, Incomplete):
        return private
    private_files = private.files if private else {}
    if missing := [path for path in published.private if path not in private_files]:
        return Incomplete(f"the configuration requires {missing[0]}, which does not exist yet")
    return {**published.files, **{path: private_files[path] for path in published.private}}


def set_listeners(files: Mapping[str, str], at: tuple[str, int]) -> dict[str, str]:
    """Return files whose listeners accept requests at an address and port."""
    changed = dict(files)
    for path in {LISTENERS, WITH_MODULE, WITH_NEW_MODULE} & files.keys():
        listeners = json.loads(files[path])
        for listener in listeners["resources"]:
            listener["address"]["socket_address"] = {"address": at[0], "port_value": at[1]}
        changed[path] = json.dumps(listeners, sort_keys=True, separators=(",", ":")) + "\n"
    return changed
