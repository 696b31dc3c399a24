"""View of a live fleet: the watched objects and the traffic of the last minutes, as the pages take them.

Only the control plane is asked, whatever the number of clusters and of tabs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway
from modelplane.api.meta import kind_name
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.memo import per_version
from modelplane.controllers import fleet_resources
from modelplane.controllers.condition_events import CONTROLLER
from modelplane.dashboard.pages import View
from modelplane.dashboard.snapshot import EVENT, Snapshot
from modelplane.dashboard.traffic import Rates, Traffic
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.usage_sums import UsageRecord
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

_LOOK_EVERY_S: Final = 2.0


class Watched:
    """The copies of all kinds."""

    def __init__(self, client: Client, began: datetime) -> None:
        self.began = began
        self.version = 0
        """Grows with each change."""
        self._informers: Mapping[str, Informer] = {
            resource.kind: Informer(client, resource, on_change=self._touch, on_answer=self._touch)
            for resource in KINDS
        } | {
            EVENT: Informer(
                client,
                resources.EVENTS,
                fields=f"reportingController={CONTROLLER}",
                on_change=self._touch,
                on_answer=self._touch,
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
            _sentence(informer, now)
            for informer in self._informers.values()
            if not (informer.synced and not informer.problem)
        )

    def _touch(self, _about: Object | Informer) -> None:
        self.version += 1


def _sentence(informer: Informer, now: float) -> str:
    what = informer.resource.plural
    if not informer.problem:
        return f"{what}: not read yet"
    if not informer.synced:
        return f"{what}: cannot be read: {informer.problem}"
    since = datetime.now(UTC) - timedelta(seconds=now - informer.problem_since)
    return f"{what}: shown as of {since:%H:%M:%S} UTC, because they cannot be read: {informer.problem}"


Feed = Callable[[], Iterable[UsageRecord]]
"""Returns the usage records since the last call; raises ``OSError`` if they cannot be read."""


class FleetView:
    """The present view, for as many pages as there are."""

    def __init__(self, watched: Watched, feed: Feed, problem: Callable[[], str] = lambda: "") -> None:
        """``problem`` says why there are no usage records; empty while there are, or may be."""
        self._watched = watched
        self._feed = feed
        self._problem = problem
        self._trouble = ""
        self._traffic = Traffic()
        self._rates: dict[str, Rates] = {}
        self._rates_version = 0

    def __call__(self) -> View:
        """Return the view of now."""
        snapshot, problems = self._watched.take_snapshot(), self._watched.list_problems()
        trouble = self._trouble or self._problem()
        return View(
            snapshot,
            datetime.now(UTC),
            f"{self._watched.began.timestamp()}-{self._watched.version}-{self._rates_version}-"
            f"{hash((problems, trouble)):x}",
            problems,
            self._rates,
            trouble,
            _tariff_of(snapshot).currency,
        )

    @contextlib.asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Follow the traffic inside the block."""
        task = asyncio.create_task(self._follow(), name="traffic")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            rates = await asyncio.to_thread(self._look, _tariff_of(self._watched.take_snapshot()))
            if rates != self._rates:
                self._rates, self._rates_version = rates, self._rates_version + 1
            await asyncio.sleep(_LOOK_EVERY_S)

    def _look(self, tariff: Tariff) -> dict[str, Rates]:
        try:
            self._traffic.add(self._feed())
            self._trouble = ""
        except OSError as error:
            self._trouble = f"the usage records cannot be read: {error.strerror}"
        return self._traffic.compute_rates(datetime.now(UTC), tariff.compute_cost_of_record)


def _tariff_of(snapshot: Snapshot) -> Tariff:
    gateway = snapshot.find(kind_name(InferenceGateway), "", DEFAULT_NAME)
    return _tariff(gateway) if gateway else Tariff(None)


@per_version
def _tariff(gateway: Mapping[str, Any]) -> Tariff:
    try:
        return Tariff(decode_as(InferenceGateway, dict(gateway)).spec.pricing)
    except InvalidObject:
        return Tariff(None)
