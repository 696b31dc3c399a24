"""Watched fleet: a copy of the objects that the pages show, kept up to date by one watch per kind.

Only the control plane is asked, whatever the number of clusters and of tabs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from modelplane.controllers import fleet_resources
from modelplane.controllers.condition_events import CONTROLLER
from modelplane.dashboard.snapshot import EVENT, Snapshot
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object

KINDS: Final = (
    fleet_resources.DEVICE_QUOTAS,
    fleet_resources.INFERENCE_CLASSES,
    fleet_resources.INFERENCE_CLUSTERS,
    fleet_resources.INFERENCE_GATEWAYS,
    fleet_resources.MODEL_CACHES,
    fleet_resources.MODEL_DEPLOYMENTS,
    fleet_resources.MODEL_ENDPOINTS,
    fleet_resources.MODEL_REPLICAS,
    fleet_resources.MODEL_SERVICES,
)


class Watched:
    """The copies of all kinds."""

    def __init__(self, client: Client, began: datetime) -> None:
        self.began = began
        self.version = 0
        """Grows with each change."""
        self._informers: Mapping[str, Informer] = {
            resource.kind: Informer(client, resource, on_change=self._changed, on_answer=self._answered)
            for resource in KINDS
        } | {
            EVENT: Informer(
                client,
                resources.EVENTS,
                fields=f"reportingController={CONTROLLER}",
                on_change=self._changed,
                on_answer=self._answered,
            )
        }
        self._known = (-1, Snapshot())

    @contextlib.asynccontextmanager
    async def keep_current(self, patience_s: float) -> AsyncIterator[None]:
        """Keep the copies up to date inside the block, which begins when they are there, or after a while."""
        tasks = [asyncio.create_task(informer.run()) for informer in self._informers.values()]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await asyncio.gather(
                        *(informer.wait_until_synced() for informer in self._informers.values())
                    )
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def take_snapshot(self) -> Snapshot:
        """Return the rows of now; the same ones until something changes."""
        if self._known[0] != self.version:
            objects = {kind: tuple(informer) for kind, informer in self._informers.items()}
            self._known = (self.version, Snapshot(objects))
        return self._known[1]

    def list_problems(self, clock: Callable[[], float] | None = None) -> tuple[str, ...]:
        """Return a sentence for each kind whose copy is missing, or may be stale, with its age."""
        now = (clock or asyncio.get_running_loop().time)()
        return tuple(
            _sentence(informer, now) for informer in self._informers.values() if not _current(informer)
        )

    def _changed(self, _item: Object) -> None:
        self.version += 1

    def _answered(self, _informer: Informer) -> None:
        self.version += 1


def _current(informer: Informer) -> bool:
    return informer.synced and not informer.problem


def _sentence(informer: Informer, now: float) -> str:
    what = informer.resource.plural
    if not informer.problem:
        return f"{what}: not read yet"
    if not informer.synced:
        return f"{what}: cannot be read: {informer.problem}"
    since = datetime.now(UTC) - timedelta(seconds=now - informer.problem_since)
    return f"{what}: shown as of {since:%H:%M:%S} UTC, because they cannot be read: {informer.problem}"
