"""Replay traces in simulated time: replica-hours and late requests of the InferenceAutoscaler and of HPA.

    python benchmarks/autoscaling.py --json
    python benchmarks/autoscaling.py --trace FILE

The traces are made with a seed, in the shape of published ones: rates, variation of gaps, lengths of answers.
A trace file has one line `SECONDS,TOKENS` for each request, or is one of Azure's or BurstGPT's as published:
a header, and columns of times and of tokens of answers. A replica answers a number of requests at a time,
and further ones wait in order. HPA is its formula with its defaults, on requests in flight per replica.
"""

import argparse
import csv
import json
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from modelplane.deciders.autoscaling.decision import ScalingSettings, decide
from modelplane.deciders.autoscaling.evidence import Evidence, Sample

TICK_S = 1.0
TOKENS_PER_S = 40.0
"""Tokens of one answer per second."""
START_S = 150.0
"""Seconds from the decision for a replica to its first answer."""
AT_A_TIME = 16
"""Requests that a replica answers at a time."""
LATE_S = 10.0
"""A request that waits longer for its turn is late."""
MOST = 40


class Request(NamedTuple):
    """A request of a trace."""

    at: float
    tokens: int


def conversation(seed: int) -> list[Request]:
    """Return an hour near Poisson: 3.2 to 8.5 requests a second, answers of 129, 424, 601 tokens (p50-99)."""
    rng = random.Random(seed)  # noqa: S311
    rates = [rng.uniform(3.2, 8.5) for _ in range(60)]
    return list(_requests(rng, rates, gap_cv=1.1, median=129, p90=424, longest=700))


def code(seed: int) -> list[Request]:
    """Return an hour of bursts: minutes of 0 to 10.5 a second, most seconds empty, 13, 55, 252 tokens."""
    rng = random.Random(seed)  # noqa: S311
    rates = [rng.choice((0.0, 0.3, 1.5, 3.0, 5.0, 10.5)) for _ in range(60)]
    return list(_requests(rng, rates, gap_cv=6.0, median=13, p90=55, longest=300))


def day(seed: int) -> list[Request]:
    """Return a day with a silent night and two peaks."""
    rng = random.Random(seed)  # noqa: S311
    rates = [
        max(0.0, 4 * math.sin(math.pi * (minute - 420) / 840)) if 420 < minute < 1260 else 0.0
        for minute in range(1440)
    ]
    return list(_requests(rng, rates, gap_cv=1.5, median=129, p90=424, longest=700))


def _requests(
    rng: random.Random, rates: Sequence[float], *, gap_cv: float, median: int, p90: int, longest: int
) -> Iterator[Request]:
    """Yield requests with gaps of a Gamma distribution and log-normal lengths; a rate for each minute."""
    shape = 1 / gap_cv**2
    sigma = math.log(p90 / median) / 1.2816
    at = 0.0
    while at < 60 * len(rates):
        rate = rates[int(at // 60)]
        if rate <= 0:
            at = 60 * (at // 60 + 1)
            continue
        at += rng.gammavariate(shape, 1 / (shape * rate))
        yield Request(at, max(1, min(longest, round(median * math.exp(rng.gauss(0, sigma))))))


TRACES: dict[str, Callable[[int], list[Request]]] = {"conversation": conversation, "code": code, "day": day}


class Policy(Protocol):
    """Decides on a number of replicas each second."""

    def replicas(self, sample: Sample, asked: int, ready: int) -> int:
        """Return the number to ask for, while so many are asked for and so many serve."""


@dataclass
class Ours:
    """The InferenceAutoscaler."""

    settings: ScalingSettings
    evidence: Evidence = field(default_factory=Evidence)

    def replicas(self, sample: Sample, asked: int, ready: int) -> int:
        """Return the number of replicas by the decision."""
        self.evidence, decision = decide(self.settings, self.evidence, sample, asked, ready)
        return decision.replicas


@dataclass
class Hpa:
    """The HorizontalPodAutoscaler, with its defaults (Kubernetes documentation, "Algorithm details")."""

    target: float
    most: int
    advised: deque[tuple[float, int]] = field(default_factory=deque)

    def replicas(self, sample: Sample, asked: int, ready: int) -> int:  # noqa: ARG002 - HPA counts all
        """Return the number of replicas, every 15 s."""
        if sample.at % 15:
            return asked
        ratio = sample.load / (self.target * max(asked, 1))
        wanted = asked if abs(ratio - 1) <= 0.1 else math.ceil(sample.load / self.target)
        wanted = min(max(wanted, 1), self.most)
        self.advised.append((sample.at, wanted))
        while self.advised[0][0] < sample.at - 300:
            self.advised.popleft()
        if wanted < asked:
            return min(asked, max(each for _, each in self.advised))
        return min(wanted, asked + max(asked, 4))


@dataclass
class Result:
    """What a policy came to."""

    replica_hours: float = 0.0
    late: int = 0
    longest_wait_s: float = 0.0
    changes: int = 0
    most_replicas: int = 0
    requests: int = 0


class Fleet:
    """Replicas that start, answer and are removed."""

    def __init__(self, replicas: int) -> None:
        self.starts = [-START_S] * replicas
        self.ends: list[float] = []

    def scale(self, count: int, now: float) -> None:
        """Begin to start replicas, or remove the youngest."""
        self.starts = self.starts[:count] + [now] * (count - len(self.starts))

    def ready(self, now: float) -> int:
        """Return the replicas that answer."""
        return sum(now - start >= START_S for start in self.starts)


def replay(trace: Sequence[Request], policy: Policy, first: int) -> Result:
    """Replay a trace."""
    fleet, waiting, result = Fleet(first), deque[Request](), Result(requests=len(trace))
    coming, now, end = deque(trace), 0.0, trace[-1].at + 120
    while now < end or waiting or fleet.ends:
        arrived = 0
        while coming and coming[0].at <= now:
            waiting.append(coming.popleft())
            arrived += 1
        fleet.ends = [each for each in fleet.ends if each > now]
        ready = fleet.ready(now)
        while waiting and len(fleet.ends) < ready * AT_A_TIME:
            request = waiting.popleft()
            wait = now - request.at
            result.longest_wait_s = max(result.longest_wait_s, wait)
            result.late += wait > LATE_S
            fleet.ends.append(now + request.tokens / TOKENS_PER_S)
        in_flight, held = (len(fleet.ends) + len(waiting), 0) if ready else (0, len(waiting))
        asked = len(fleet.starts)
        wanted = policy.replicas(Sample(now, in_flight, held, arrived), asked, ready)
        if wanted != asked:
            result.changes += 1
            fleet.scale(wanted, now)
        result.most_replicas = max(result.most_replicas, len(fleet.starts))
        result.replica_hours += len(fleet.starts) * TICK_S / 3600
        now += TICK_S
    return result


def compare(trace: Sequence[Request], target: float) -> dict[str, object]:
    """Replay a trace by every policy."""
    policies: dict[str, tuple[Policy, int]] = {
        "ours": (Ours(ScalingSettings(1, MOST, requests=target)), 1),
        "ours, to zero": (Ours(ScalingSettings(0, MOST, requests=target)), 0),
        "hpa": (Hpa(target, MOST), 1),
    }
    return {name: _rounded(replay(trace, *each)) for name, each in policies.items()}


def _rounded(result: Result) -> dict[str, float]:
    return {name: round(value, 2) for name, value in vars(result).items()}


_TOKENS = ("generatedtokens", "response tokens")
"""Columns of the tokens of answers, in the traces of Azure and of BurstGPT."""


def of_file(path: Path) -> list[Request]:
    """Return the requests of a file: lines of seconds and tokens, or one of Azure's or BurstGPT's traces."""
    with path.open(newline="") as lines:
        rows = [row for row in csv.reader(lines) if row]
    head = [name.strip().lower() for name in rows[0]]
    has_head = "timestamp" in head
    at, tokens = 0, 1
    if has_head:
        at = head.index("timestamp")
        tokens = next(head.index(name) for name in _TOKENS if name in head)
    found = sorted(Request(_seconds(row[at]), int(float(row[tokens]))) for row in rows[has_head:])
    # Times begin at any date. A request that failed has no tokens.
    return [Request(each.at - found[0].at, each.tokens) for each in found if each.tokens > 0]


def _seconds(time: str) -> float:
    try:
        return float(time)
    except ValueError:
        return datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()


def main() -> None:
    """Print a line for each trace and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trace", type=Path, help="CSV, instead of the seeded traces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", type=float, default=10, help="requests per replica")
    options = parser.parse_args()
    traces = (
        {options.trace.name: of_file(options.trace)}
        if options.trace
        else {name: make(options.seed) for name, make in TRACES.items()}
    )
    results = {name: compare(trace, options.target) for name, trace in traces.items()}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, by_policy in results.items():
        for policy, result in by_policy.items():
            print(f"{name:14} {policy:14} {result}")


if __name__ == "__main__":
    main()
