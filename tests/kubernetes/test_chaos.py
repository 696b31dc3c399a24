"""A fleet under ``kill -9``: whatever dies, whenever, the same models answer the same again.

Each round kills some processes at random moments while requests go on, then gives the fleet half
a minute. Rounds are seeded: a failure names its seed, and MODELPLANE_CHAOS_ROUNDS asks for more.
"""

import json
import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from modelplane.local import lifecycle, locks, process_status
from modelplane.local.agent.records import AgentDirectory
from modelplane.local.home import Home
from modelplane.local.processes import LEADER, STANDBY
from support.fleets import Fleet

pytestmark = pytest.mark.kubernetes

ROUNDS = int(os.environ.get("MODELPLANE_CHAOS_ROUNDS", "3"))
HEALED_WITHIN_S = 30.0
EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
QUESTION = {
    "model": "gemma",
    "messages": [{"role": "user", "content": "The capital of France is"}],
    "max_tokens": 8,
    "temperature": 0,
    "seed": 7,
}
ENGINES = ("engine", "shim")
SUPERVISORS = (LEADER, STANDBY)
MOST_ENGINES = 2
"""Deaths of an engine in a row that its back-off forgives within half a minute."""


def ask(address: str, timeout_s: float = 20) -> str:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(QUESTION).encode(), headers)
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
        content: str = json.load(response)["choices"][0]["message"]["content"]
    return content


class Traffic:
    """A request every tenth of a second, and what came of them."""

    def __init__(self, address: str) -> None:
        self.answers: list[str] = []
        self.failures = 0
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                self.answers.append(ask(self._address))
            except (OSError, ValueError, KeyError):
                self.failures += 1

    @contextmanager
    def flowing(self) -> Iterator["Traffic"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(30)


@pytest.fixture(scope="module")
def served(fleet: Fleet) -> Iterator[Fleet]:
    fleet.kubectl("apply", "-f", str(EXAMPLE))
    fleet.kubectl("wait", "--for=condition=Ready", "ms/first-answer", "-n", "ml-team", "--timeout=120s")
    yield fleet
    fleet.kubectl("delete", "md,ms", "--all", "-n", "ml-team", "--timeout=60s")


def address_of(fleet: Fleet) -> str:
    return fleet.kubectl("get", "ms", "first-answer", "-n", "ml-team", "-o", "jsonpath={.status.address}")


def objects(fleet: Fleet) -> set[tuple[str, str, str]]:
    # Not the ModelEndpoints: one goes with an engine that does not serve, and comes back with it.
    kinds = "md,mr,ms,deployments,pods,httproutes,resourceclaims"
    items = json.loads(fleet.kubectl("get", kinds, "-n", "ml-team", "-o", "json"))["items"]
    return {(item["kind"], item["metadata"]["name"], item["metadata"]["uid"]) for item in items}


def engines(home: Home) -> dict[str, int]:
    """Return the pids of the engine that runs and of its supervisor."""
    pids = {}
    for pod in AgentDirectory(home.agent).pods():
        for attempt in pod.attempts():
            for name, process in (("engine", attempt.engine), ("shim", attempt.shim)):
                if process is not None and process.alive:
                    pids[name] = process.pid
    return pids


def fleet_pids(home: Home) -> dict[str, int]:
    return {each.name: each.pid for each in process_status.of(home) if each.pid}


def everything(home: Home) -> set[int]:
    """Return every process that has anything to do with a home, known or not."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            about = [*process.cmdline(), *process.environ().values(), process.cwd()]
            if process.pid != os.getpid() and any(str(home.root) in text for text in about):
                found.add(process.pid)
    return found


def known(home: Home) -> set[int]:
    return {*fleet_pids(home).values(), *engines(home).values()}


def heal(fleet: Fleet, expected: str, kept: set[tuple[str, str, str]]) -> float:
    """Return the seconds until everything is as it was; fail with what is not."""
    began = time.monotonic()
    if not lifecycle.supervised(fleet.home):
        fleet.modelplane("up")
    while problem := _unlike_before(fleet, expected, kept):
        assert time.monotonic() - began < HEALED_WITHIN_S, problem
        time.sleep(0.2)
    return time.monotonic() - began


def _unlike_before(fleet: Fleet, expected: str, kept: set[tuple[str, str, str]]) -> str:
    if states := [each for each in process_status.of(fleet.home) if each.state != "Running"]:
        return f"{states}"
    try:
        answer = ask(address_of(fleet))
        now = objects(fleet)
    except (OSError, ValueError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    if (answer, now) != (expected, kept):
        return f"{answer!r}; lost: {kept - now}; new: {now - kept}"
    strangers = everything(fleet.home) - known(fleet.home)
    return f"processes that nobody knows: {[_described(pid) for pid in strangers]}" if strangers else ""


def _described(pid: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return str(pid)


def kill(pids: dict[str, int], name: str) -> None:
    with suppress(ProcessLookupError, KeyError):
        os.kill(pids[name], signal.SIGKILL)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whatever_is_killed_the_same_model_answers_the_same_again(served: Fleet, seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    expected, kept = ask(address_of(served)), objects(served)
    pids = fleet_pids(served.home) | engines(served.home)
    names = sorted(set(pids) - (set() if seed < MOST_ENGINES else set(ENGINES)) - set(SUPERVISORS))
    victims = random_.sample(names, 2) + list(SUPERVISORS if seed % 3 == 1 else [])
    if set(ENGINES) <= set(victims):
        victims.remove("shim")
    with Traffic(address_of(served)).flowing() as traffic:
        time.sleep(random_.random())
        for victim in sorted(victims, key=lambda name: name in SUPERVISORS):
            kill(pids, victim)
            if victim not in SUPERVISORS:
                time.sleep(random_.random() / 2)
        if set(SUPERVISORS) <= set(victims):
            _until(lambda: not lifecycle.supervised(served.home))
        took_s = heal(served, expected, kept)
    told = f"seed {seed}, killed {victims}, healed in {took_s:.1f} s, failed {traffic.failures}"
    assert set(traffic.answers) == {expected}, told
    print(told, "answered", len(traffic.answers))  # noqa: T201 - shown where a round fails, and with -s


def test_a_fleet_that_nobody_watches_goes_on_serving_and_is_taken_over_by_the_next_up(
    served: Fleet,
) -> None:
    expected, kept = ask(address_of(served)), objects(served)
    before = fleet_pids(served.home) | engines(served.home)
    with Traffic(address_of(served)).flowing() as traffic:
        for name in SUPERVISORS:
            kill(before, name)
        _until(lambda: not lifecycle.supervised(served.home))
        time.sleep(1)
        states = {each.name: each.state for each in process_status.of(served.home)}
        assert {name for name, state in states.items() if state != "Running"} == set(SUPERVISORS)
        kill(before, "kube-scheduler")
        _until(lambda: locks.holder(served.home.lock("kube-scheduler")) is None)
        states = {each.name: each.state for each in process_status.of(served.home)}
        assert states["kube-scheduler"] == "Stopped", "nobody starts it again"
        heal(served, expected, kept)
    assert (traffic.failures, set(traffic.answers)) == (0, {expected})
    after = fleet_pids(served.home) | engines(served.home)
    renewed = {*SUPERVISORS, "kube-scheduler"}
    assert {name: pid for name, pid in after.items() if name not in renewed} == {
        name: pid for name, pid in before.items() if name not in renewed
    }


def test_after_a_power_failure_up_brings_back_the_same_fleet(served: Fleet) -> None:
    expected, kept = ask(address_of(served)), objects(served)
    for pid in sorted(everything(served.home), key=lambda pid: pid not in _supervisors(served.home)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _until(lambda: not everything(served.home))
    attempt = next(iter(AgentDirectory(served.home.agent).pods()[0].attempts()))
    for record in (served.home.record("etcd"), attempt.directory / "engine.json"):
        record.write_bytes(b"")
    heal(served, expected, kept)


def _supervisors(home: Home) -> set[int]:
    pids = fleet_pids(home)
    return {pids[name] for name in SUPERVISORS if name in pids}


def _until(holds: object, timeout_s: float = 10) -> None:
    assert callable(holds)
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)
