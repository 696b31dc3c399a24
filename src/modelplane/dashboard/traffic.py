"""Traffic: rates, errors, times and costs of services over the last minutes, from usage records."""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.gateway.usage.costs import UNIT
from modelplane.gateway.usage.usage_sums import MOST_LINE_BYTES, By, Usage, UsageRecord, record_of
from modelplane.install import gateway_deployment, installation_options
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.local.home import Home
from modelplane.operations import pod_logs
from modelplane.operations.pod_logs import Container, Follower, Found, LogOptions
from modelplane.proxy.envoy_directory import USAGE_LOG

WINDOW: Final = timedelta(minutes=5)

MOST_RECORDS: Final = 50_000
"""Maximum of records that are kept; with more requests the window is shorter, and the rates stay right."""

_SHORTEST: Final = timedelta(seconds=10)

_FIRST_BYTES = 16 << 20
"""Part of the file that is read at first, from its end."""

_MOST_BYTES = 16 << 20
"""Maximum of one read; the rest is read by the next."""

_RETRY_S: Final = 10.0


class UsageTail:
    """Reads what is appended to the file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / USAGE_LOG
        self._file: BinaryIO | None = None
        self._rest = b""

    def read(self) -> tuple[UsageRecord, ...]:
        """Return the records since the last read; at first, those at the end of the file."""
        records = self._lines()
        if self._renamed():
            records += self._lines()
        return tuple(filter(None, map(record_of, records)))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _renamed(self) -> bool:
        """Open the file of this name if it is another one now; return True if it is."""
        with suppress(FileNotFoundError):
            if self._file is None or os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
                self.close()
                self._rest = b""
                self._file = self._path.open("rb")
                return True
        return False

    def _lines(self) -> list[bytes]:
        if self._file is None:
            if not self._renamed() or self._file is None:
                return []
            self._file.seek(max(os.fstat(self._file.fileno()).st_size - _FIRST_BYTES, 0))
        *lines, rest = (self._rest + self._file.read(_MOST_BYTES)).split(b"\n")
        self._rest = rest[: MOST_LINE_BYTES + 1]
        return lines


@dataclass(frozen=True, slots=True)
class Rates:
    """Traffic of one service; a time of None is unknown."""

    service: str
    per_second: float
    errors_percent: float
    tokens_per_second: float
    first_token_p50_ms: int | None
    first_token_p95_ms: int | None
    duration_p95_ms: int | None
    cost_per_hour: float | None
    last: datetime
    """Time of the last request."""


class Traffic:
    """The records of the last minutes."""

    def __init__(self) -> None:
        self._records: deque[UsageRecord] = deque(maxlen=MOST_RECORDS)

    def add(self, records: Iterable[UsageRecord]) -> None:
        """Add records, oldest first."""
        self._records.extend(records)

    def compute_rates(
        self, now: datetime, cost: Callable[[UsageRecord], int | None] = lambda _: None
    ) -> dict[str, Rates]:
        """Return the traffic of each service, by ``NAMESPACE/NAME``; a service without requests is absent."""
        while self._records and self._records[0].time < now - WINDOW:
            self._records.popleft()
        kept = tuple(record for record in self._records if record.service and record.time >= now - WINDOW)
        if not kept:
            return {}
        full = len(self._records) == MOST_RECORDS
        seconds = max(now - kept[0].time if full else WINDOW, _SHORTEST).total_seconds()
        sums = Usage(By.SERVICE, cost=cost)
        last: dict[str, datetime] = {}
        for record in kept:
            sums.add(record)
            last[record.service] = max(last.get(record.service, record.time), record.time)
        return {
            name: Rates(
                name,
                group.requests / seconds,
                100 * group.errors / group.requests,
                (group.prompt_tokens + group.completion_tokens) / seconds,
                group.first_token.find_percentile(0.5),
                group.first_token.find_percentile(0.95),
                group.duration.find_percentile(0.95),
                group.cost / UNIT * 3600 / seconds if group.cost else None,
                last[name],
            )
            for name, group in sums.groups
        }


Records = Callable[[], Iterable[UsageRecord]]
Problem = Callable[[], str]


@contextlib.asynccontextmanager
async def open_feed(home: Home | None, client: Client) -> AsyncIterator[tuple[Records, Problem]]:
    """Give the records of a local fleet, or else of a control plane, and the reason why there are none."""
    if home is not None:
        with contextlib.closing(UsageTail(home.envoy)) as tail:
            yield tail.read, str
        return
    followed = _GatewayPods(client)
    task = asyncio.create_task(followed.run(), name="gateway logs")
    try:
        yield followed.read, lambda: followed.problem
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _GatewayPods:
    """Follows the logs of the gateway's pods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._records: deque[UsageRecord] = deque(maxlen=MOST_RECORDS)
        self._no_pods = ""
        self._unreadable = ""

    @property
    def problem(self) -> str:
        """The reason why there are no records, or not all; empty while there are."""
        return self._no_pods or self._unreadable

    def read(self) -> tuple[UsageRecord, ...]:
        """Return the records since the last call."""
        return tuple(self._records.popleft() for _ in range(len(self._records)))

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            options = LogOptions(since_s=int(WINDOW.total_seconds()))
            try:
                await Follower(options, self._add, self._note).follow(self._look)
            except errors.KubernetesError as error:
                self._note(f"the gateway's pods cannot be read: {error}")
            await asyncio.sleep(_RETRY_S)

    async def _look(self) -> Found | None:
        labels = installation_options.build_selector(gateway_deployment.GATEWAY_COMPONENT)
        pods = await pod_logs.list_containers("", self._client, SYSTEM_NAMESPACE, labels)
        containers = tuple(container for container in pods if container.name == gateway_deployment.ENVOY)
        self._no_pods = "" if containers else f'there is no pod of the gateway in "{SYSTEM_NAMESPACE}"'
        return Found(containers, ())

    def _add(self, _container: Container, line: bytes) -> None:
        if record := record_of(line):
            self._records.append(record)
            self._unreadable = ""

    def _note(self, told: str) -> None:
        self._unreadable = told
