"""Schedule and results of probes (core/v1 ``Probe``).

A verdict changes only after as many equal answers as its threshold; callers decide what a verdict means.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.kubelet.pods.http_check import Answer

FIELDS = ("startupProbe", "readinessProbe", "livenessProbe")
"""A container's fields that hold its probes."""

Ask = Callable[[Mapping[str, Any], float], Awaitable[Answer]]
"""Asks once, given the handler and the time limit in seconds."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe with Kubernetes' defaults filled in; times in seconds."""

    handler: Mapping[str, Any]
    initial_delay_s: float
    period_s: float
    timeout_s: float
    success_threshold: int
    failure_threshold: int
    grace_s: float | None
    """Termination grace period after this probe fails; None means the pod's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a probe; ``problem`` is that of the last answer if it failed."""

    ok: bool
    problem: str = ""


def probe(container: Mapping[str, Any], field: str) -> Probe | None:
    """Return one of a container's probes; None if it has none."""
    spec = container.get(field)
    if not spec:
        return None
    grace = spec.get("terminationGracePeriodSeconds")
    return Probe(
        handler=spec,
        initial_delay_s=float(spec.get("initialDelaySeconds", 0)),
        period_s=float(spec.get("periodSeconds", 10)),
        timeout_s=float(spec.get("timeoutSeconds", 1)),
        success_threshold=int(spec.get("successThreshold", 1)),
        failure_threshold=int(spec.get("failureThreshold", 3)),
        grace_s=None if grace is None else float(grace),
    )


async def observe_verdicts(asked: Probe, ask: Ask, running_s: float) -> AsyncIterator[Verdict]:
    """Probe without end; yield each verdict that differs from the previous one.

    ``running_s`` is the time since the container started, from which the initial delay counts.
    """
    await asyncio.sleep(max(asked.initial_delay_s - running_s, 0.0))
    loop = asyncio.get_running_loop()
    last: bool | None = None
    streak_of, streak = True, 0
    while True:
        began = loop.time()
        answer = await ask(asked.handler, asked.timeout_s)
        streak = streak + 1 if answer.ok is streak_of else 1
        streak_of = answer.ok
        needed = asked.success_threshold if answer.ok else asked.failure_threshold
        if streak >= needed and answer.ok is not last:
            last = answer.ok
            yield Verdict(answer.ok, "" if answer.ok else answer.problem)
        await asyncio.sleep(max(asked.period_s - (loop.time() - began), 0.0))
