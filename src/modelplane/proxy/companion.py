"""Sidecar of one Envoy in a cluster: it configures Envoy, and drains it before the pod ends.

One rule: no request in progress is cut off. A terminating pod first reports not
ready, so that load balancers send it no more requests. It ends when no request is in
progress, or when the termination grace period is over.
"""

import asyncio
import logging
from pathlib import Path

from modelplane.host.errors import LocalError
from modelplane.proxy import admin, envoy_bootstrap
from modelplane.proxy.counting import Counting
from modelplane.proxy.follower import GatewayFollower
from modelplane.proxy.interface import FLEET_LISTENER

_log = logging.getLogger(__name__)

_POLL_S = 0.2


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
    def problem(self) -> str:
        """Reason why no requests should be sent here; empty while they may. Safe to read in any thread."""
        if self._draining:
            return "the gateway is about to end"
        return self._follower.problem or admin.find_obstacle(self._directory)

    async def run(self) -> None:
        """Follow until cancelled, and then until no request is in progress."""
        following = asyncio.create_task(self._follow())
        try:
            await asyncio.shield(following)
        except asyncio.CancelledError:
            await self._drain()
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

    async def _drain(self) -> None:
        self._draining = True
        _log.info("not ready any more; ending in %.0f s", self._drain_s)
        await asyncio.sleep(self._drain_s)
        while await asyncio.to_thread(self._busy):
            await asyncio.sleep(_POLL_S)

    def _busy(self) -> bool:
        try:
            return admin.count_requests(self._directory, FLEET_LISTENER) > 0
        except LocalError:
            return False
