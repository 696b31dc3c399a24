"""View of a live fleet: the watched objects and the traffic of the last minutes, as the pages take them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway
from modelplane.api.meta import kind_name
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.memo import per_version
from modelplane.dashboard.pages import View
from modelplane.dashboard.snapshot import Snapshot
from modelplane.dashboard.traffic import Rates, Traffic
from modelplane.dashboard.watched import Watched
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.usage_sums import UsageRecord

_LOOK_EVERY_S: Final = 2.0

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
            tariff = _tariff_of(self._watched.take_snapshot())
            rates = await asyncio.to_thread(self._look, tariff)
            if rates != self._rates:
                self._rates, self._rates_version = rates, self._rates_version + 1
            await asyncio.sleep(_LOOK_EVERY_S)

    def _look(self, tariff: Tariff) -> dict[str, Rates]:
        try:
            self._traffic.add(self._feed())
            self._trouble = ""
        except OSError as error:
            self._trouble = f"the usage records cannot be read: {error.strerror}"
        return self._traffic.measure_rates(datetime.now(UTC), tariff.measure_cost_of_record)


def _tariff_of(snapshot: Snapshot) -> Tariff:
    gateway = snapshot.find(kind_name(InferenceGateway), "", DEFAULT_NAME)
    return _tariff(gateway) if gateway else Tariff(None)


@per_version
def _tariff(gateway: Mapping[str, Any]) -> Tariff:
    try:
        return Tariff(decode_as(InferenceGateway, dict(gateway)).spec.pricing)
    except InvalidObject:
        return Tariff(None)
