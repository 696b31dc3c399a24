"""Counting in a gateway's pod: the sidecar sums Envoy's records, and publishes the sums."""

import asyncio
import logging
from pathlib import Path

from modelplane.gateway.usage.ledger import Ledger, Rows
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.proxy.ledger_file import LedgerFile
from modelplane.proxy.ledger_objects import build_object
from modelplane.proxy.usage_files import Rotation
from modelplane.telemetry import metrics

_log = logging.getLogger(__name__)

PUBLISH_EVERY_S = 2.0
FLUSH_S = 1.2
"""Envoy writes what it has recorded at least once a second."""

MOST_BYTES = 8 << 20
"""Length from which a file of records is rotated: they are also in the log of the pod."""

KEPT = 4

_CANNOT = "cannot publish what API keys have used; trying again"


class Counting:
    """Sums of one Envoy. Nothing is written while it counts nothing."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._ledger = LedgerFile(directory)
        self._rotation = Rotation(directory, MOST_BYTES, KEPT)
        self._published: dict[str, Rows] = {}
        self._changes = -1
        self._problem = ""

    async def run(self) -> None:
        """Count until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rotation.run())
            while True:
                is_complete = await self.look()
                await asyncio.sleep(PUBLISH_EVERY_S if is_complete else 0)

    async def finish(self) -> None:
        """Count the last requests, after the last answer."""
        await asyncio.sleep(FLUSH_S)
        await self.look()

    async def look(self) -> bool:
        """Read new records and publish the sums; return False if there is more to read."""
        try:
            ledger = await asyncio.to_thread(self._ledger.look)
        except OSError as error:
            self._say(f"{_CANNOT}: {error}")
            return True
        if ledger is not None and ledger.changes != self._changes:
            changes = ledger.changes
            problems = [
                await self._publish(*changed) for changed in await asyncio.to_thread(self._changed, ledger)
            ]
            if any(problems):
                self._say(f"{_CANNOT}: {next(filter(None, problems))}")
                return True
            self._changes = changes
        self._say("")
        return ledger is not None

    async def _publish(self, period: str, rows: Rows, manifest: Object) -> str:
        """Publish the sums of a period, and return why it cannot; the others do not wait for it."""
        try:
            await self._client.apply(manifest)
        except errors.KubernetesError as error:
            self._published.pop(period, None)
            return f"{manifest['metadata']['name']}: {error}"
        self._published[period] = rows
        return ""

    def _changed(self, ledger: Ledger) -> list[tuple[str, Rows, Object]]:
        """Return the objects of the periods with other sums than those that were published."""
        self._published = {
            period: rows for period, rows in self._published.items() if period in ledger.periods
        }
        changed = {
            period: dict(rows)
            for period, rows in ledger.periods.items()
            if self._published.get(period) != rows
        }
        return [
            (period, rows, build_object(self._ledger.id, period, rows)) for period, rows in changed.items()
        ]

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.warning("%s", problem)
        self._problem = problem
        metrics.set_unpublished(bool(problem))
