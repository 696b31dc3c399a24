"""Schedule and results of probes (core/v1 ``Probe``).

A streak of answers turns a verdict only at its threshold; the caller says what a verdict means.
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
    """How long the container may take to end after this probe fails; None is as long as the pod says."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe has come to; ``problem`` is the last answer's where it failed."""

    ok: bool
    problem: str = ""


def probe(container: Mapping[str, Any], field: str) -> Probe | None:
    """Return one of a container's probes, None where it has none."""
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


async def verdicts(asked: Probe, ask: Ask, running_s: float) -> AsyncIterator[Verdict]:
    """Ask for ever; yield each verdict that differs from the one before.

    ``running_s`` is how long the container has run already: its initial delay counts from its start.
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
