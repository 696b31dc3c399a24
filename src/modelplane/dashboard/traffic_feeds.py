"""Feeds of usage records for live views: files of this machine's Envoy, or logs of the gateway's pods."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.dashboard.traffic import MOST_RECORDS, WINDOW, UsageTail
from modelplane.gateway.usage.usage_sums import UsageRecord, record_of
from modelplane.install import deployments, installation_options
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.local.home import Home
from modelplane.operations import pod_logs
from modelplane.operations.pod_logs import Container, Follower, Found, LogOptions

Records = Callable[[], Iterable[UsageRecord]]
Problem = Callable[[], str]

_RETRY_S: Final = 10.0


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
        labels = installation_options.build_selector(deployments.GATEWAY_COMPONENT)
        pods = await pod_logs.list_containers("", self._client, SYSTEM_NAMESPACE, labels)
        containers = tuple(container for container in pods if container.name == deployments.ENVOY)
        self._no_pods = "" if containers else f'there is no pod of the gateway in "{SYSTEM_NAMESPACE}"'
        return Found(containers, ())

    def _add(self, _container: Container, line: bytes) -> None:
        if record := record_of(line):
            self._records.append(record)
            self._unreadable = ""

    def _note(self, told: str) -> None:
        self._unreadable = told
