"""Termination of a container within its grace period (Kubernetes, "Pod Lifecycle", termination of pods).

First its preStop hook runs. When those that use it have ended, its stop signal is sent; after the grace
period it is killed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from modelplane.kube import timestamps
from modelplane.kubelet.pods.reporting import ContainerReport, PodReport
from modelplane.kubelet.pods.views import PodView
from modelplane.kubelet.records import Attempt
from modelplane.kubelet.runtime.runtime_choice import Runtimes

_LEAST_GRACE_S = 2.0
_GONE_GRACE_S = 5.0

_log = logging.getLogger(__name__)


class Termination:
    """Ends the attempts of one pod's container."""

    def __init__(self, report: ContainerReport, runtimes: Runtimes) -> None:
        self._report = report
        self._runtimes = runtimes

    async def end(
        self, attempt: Attempt, left_s: Callable[[], float], turn: Callable[[PodView], bool] = lambda _: True
    ) -> None:
        """Run the hook, wait for the container's turn, and end it, for as long as there is time left.

        After the hook and the wait, there are at least two seconds left, as in Kubernetes.
        """
        hook = self._report.spec.get("lifecycle", {}).get("preStop")
        if hook and not self._report.whole.gone:
            await self._within(self._pre_stop(attempt, hook), left_s)
        await self._within(self._report.whole.wait_until(turn), left_s)
        at_least = start_countdown(_LEAST_GRACE_S)

        def still_left_s() -> float:
            return max(left_s(), at_least())

        runtime = self._runtimes.find(attempt)
        await self._within(runtime.terminate(attempt), still_left_s)
        if not await self._within(runtime.wait(attempt), still_left_s):
            await runtime.kill(attempt)

    async def _pre_stop(self, attempt: Attempt, hook: Mapping[str, Any]) -> None:
        if "sleep" in hook:
            await asyncio.sleep(float(hook["sleep"]["seconds"]))
        elif {"httpGet", "tcpSocket", "exec"} & hook.keys():
            spec, most_s = self._report.spec, float(get_grace_s(self._report.pod))
            answer = await self._runtimes.find(attempt).ask(attempt, hook, spec, most_s)
            if not answer.ok:
                name = self._report.pod["metadata"]["name"]
                _log.warning('the preStop hook of pod "%s" failed: %s', name, answer.problem)

    async def _within(self, work: Coroutine[Any, Any, object], left_s: Callable[[], float]) -> bool:
        """Let some work go on until the time is over, which may be cut short meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                seconds = left_s()
                if seconds <= 0:
                    return False
                woken = asyncio.ensure_future(self._report.whole.changed.wait())
                await asyncio.wait({task, woken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        finally:
            task.cancel()
            await asyncio.wait({task})
        return True


class Deadline:
    """The end of a pod's grace period, which the API server sets."""

    def __init__(self, report: PodReport) -> None:
        self._report = report
        self._deadline = ("", 0.0)

    def compute_left_s(self, began: float) -> float:
        """Return how long the pod may still take to end, which began at a time of the monotonic clock.

        The API server says until when by the clock on the wall, which is looked at once for each word
        of the server's, because it may be set meanwhile.
        """
        now = time.monotonic()
        if self._report.gone:
            return began + _GONE_GRACE_S - now
        stamp = self._report.pod["metadata"]["deletionTimestamp"]
        if self._deadline[0] != stamp:
            # The API server truncates it to seconds.
            by_clock = timestamps.parse(stamp).timestamp() + 1.0 - time.time()
            most_s = get_grace_s(self._report.pod) + 1.0
            self._deadline = (stamp, now + max(min(by_clock, most_s), _LEAST_GRACE_S - (now - began)))
        return self._deadline[1] - now


def get_grace_s(pod: Mapping[str, Any]) -> int:
    """Return how many seconds a pod may take to end."""
    metadata, spec = pod["metadata"], pod["spec"]
    grace = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
    return 30 if grace is None else int(grace)


def start_countdown(seconds: float) -> Callable[[], float]:
    """Return a function that returns the rest of some seconds that begin now."""
    deadline = time.monotonic() + seconds
    return lambda: deadline - time.monotonic()
