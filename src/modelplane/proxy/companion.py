"""Sidecar of one Envoy in a cluster: it configures Envoy, counts usage, and drains it before the pod ends.

One rule: no request in progress is cut off. A terminating pod first reports not ready, so that load
balancers send it no more requests. It ends when no request is in progress, or when the termination grace
period is over.

It sums Envoy's records of usage, and publishes the sums.
"""

import asyncio
import logging
from pathlib import Path

from modelplane.gateway.usage.ledger import Ledger, Rows
from modelplane.host.errors import LocalError
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.proxy import admin, envoy_bootstrap
from modelplane.proxy.envoy_directory import Rotation
from modelplane.proxy.follower import GatewayFollower
from modelplane.proxy.interface import FLEET_LISTENER
from modelplane.proxy.ledgers import LedgerFile, build_object
from modelplane.telemetry import metrics

PUBLISH_EVERY_S = 2.0
FLUSH_S = 1.2
"""Envoy writes what it has recorded at least once a second."""

MOST_BYTES = 8 << 20
"""Length from which a file of records is rotated: they are also in the log of the pod."""

KEPT = 4
_CANNOT = "cannot publish what API keys have used; trying again"
_log = logging.getLogger(__name__)
_POLL_S = 0.2


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


class Gateway:
    """Follows the published configuration until the pod ends, then drains."""

    def __init__(
        self, follower: GatewayFollower, counting: Counting, directory: Path, drain_s: float
    ) -> None:
        self._follower = follower
        self._counting = counting
        self._directory = directory
        self._drain_s = drain_s
        self._draining = False

    @property
    def problem(self) -> str | None:
        """Reason why no requests should be sent here; None while they may. Safe to read in any thread."""
        if self._draining:
            return "the gateway is about to end"
        return self._follower.problem or admin.find_obstacle(self._directory)

    async def run(self) -> None:
        """Follow until cancelled, and then until no request is in progress."""
        following = asyncio.create_task(self._follow())
        try:
            await asyncio.shield(following)
        except asyncio.CancelledError:
            self._draining = True
            _log.info("not ready any more; ending in %.0f s", self._drain_s)
            await asyncio.sleep(self._drain_s)
            while await asyncio.to_thread(self._busy):
                await asyncio.sleep(_POLL_S)
            raise
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self._counting.finish()

    async def _follow(self) -> None:
        while not envoy_bootstrap.is_prepared(self._directory):
            await asyncio.sleep(_POLL_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follower.run())
            group.create_task(self._counting.run())

    def _busy(self) -> bool:
        try:
            return admin.count_requests(self._directory, FLEET_LISTENER) > 0
        except LocalError:
            return False
