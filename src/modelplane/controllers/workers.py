"""Workers: reconcile the owners in a queue, and catch every exception, so that no bug stops the others.

A failed owner goes back into the queue, which backs off (``controllers/queue.py``).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from modelplane.api.rejected import Rejected
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.queue import WorkQueue
from modelplane.controllers.runnable import Runnable
from modelplane.kube import errors
from modelplane.telemetry import metrics, traces
from modelplane.telemetry.metric_definitions import Result

_log = logging.getLogger(__name__)


class Workers(Runnable):
    """Reconcile what a queue hands out, as much at a time as the queue allows."""

    def __init__(
        self,
        name: str,
        queue: WorkQueue[OwnerKey],
        reconcile: Callable[[OwnerKey], Awaitable[float | Rejected | None]],
    ) -> None:
        """``reconcile`` returns after how many seconds to look again, if at all, or what is tried again."""
        self.name = name
        self._queue = queue
        self._reconcile = reconcile

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                key = await self._queue.get()
                group.create_task(self._work_on(key))

    async def _work_on(self, key: OwnerKey) -> None:
        about = key._asdict()
        began = time.monotonic()
        with traces.open_span("reconcile", **about) as span:
            result = await self._reconciled(key, span)
            span.set(result=result)
            duration_s = time.monotonic() - began
            fields = traces.make_fields(**about, duration_s=round(duration_s, 6))
            _log.debug("%s: %s", key, result, extra=fields)
        metrics.count_reconcile(key.kind, result, duration_s)

    async def _reconciled(self, key: OwnerKey, span: traces.Span) -> Result:
        extra = traces.make_fields(**key._asdict())
        try:
            later_s = await self._reconcile(key)
        except errors.KubernetesError as error:
            later_s = Rejected(detail=str(error))
        except Exception:  # noqa: BLE001 - one bad object must not stop all others
            delay_s = self._queue.failed(key)
            span.mark_failed("a bug")
            _log.exception("%s: a bug; trying again in %.1f s", key, delay_s, extra=extra)
            return Result.BUG
        except asyncio.CancelledError:
            # These workers stop. If that is for a bug, they are run again and must find the key.
            self._queue.failed(key)
            raise
        if isinstance(later_s, Rejected):
            delay_s = self._queue.failed(key)
            span.mark_failed(later_s.message)
            _log.info("%s: %s; trying again in %.1f s", key, later_s.message, delay_s, extra=extra)
            return Result.RETRY
        self._queue.done(key)
        if later_s is None:
            return Result.SUCCESS
        self._queue.add_later(key, later_s)
        return Result.REQUEUE_AFTER
