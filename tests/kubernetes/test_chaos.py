"""A fleet under ``kill -9``: whatever dies, whenever, nothing is lost and nothing is left behind.

Each round takes the tour on three clusters while processes are killed at random moments, and compares what
is there at its end, objects and processes, with what was there when nobody died. Rounds are seeded: a
failure names its seed. MODELPLANE_CHAOS_ROUNDS asks for more, and MODELPLANE_CHAOS_RECORD names a file
to which each round adds a line of JSON.
"""

import json
import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from modelplane.kubelet.records import AgentDirectory
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle, locks
from modelplane.local.supervision.processes import LEADER, STANDBY
from support import small_model
from support.fleets import Fleet, find_engines
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

ROUNDS = int(os.environ.get("MODELPLANE_CHAOS_ROUNDS", "1"))
RECORD = os.environ.get("MODELPLANE_CHAOS_RECORD", "")
PAUSE_S = (0.3, 2.0)
"""Between two kills, at least and at most."""
POLL_S = 1.0
"""Between two looks at a whole fleet, each of which takes as long on a core."""
EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "01-first-answer"
QUESTION = {
    "model": "gemma",
    "messages": [{"role": "user", "content": "The capital of France is"}],
    "max_tokens": 8,
    "temperature": 0,
    "seed": 7,
}
ENGINES = ("engine", "shim")
SUPERVISORS = (STANDBY, LEADER)
"""In the order in which both can be killed: a standby leads the moment that its leader is dead."""
MOST_ENGINES = 2
"""Deaths of engines in a round: more in a row, and Kubernetes' back-off makes them wait for minutes."""


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
    fleet.wait_until_served("first-answer", "ml-team")
    yield fleet
    fleet.kubectl("delete", "md,ms", "--all", "-n", "ml-team", "--timeout=180s")


def address_of(fleet: Fleet) -> str:
    return fleet.kubectl("get", "ms", "first-answer", "-n", "ml-team", "-o", "jsonpath={.status.address}")


def objects(fleet: Fleet) -> set[tuple[str, str, str]]:
    # Not the ModelEndpoints: one goes with an engine that does not serve, and comes back with it.
    kinds = "md,mr,ms,deployments,pods,httproutes,resourceclaims"
    items = json.loads(fleet.kubectl("get", kinds, "-n", "ml-team", "-o", "json"))["items"]
    return {(item["kind"], item["metadata"]["name"], item["metadata"]["uid"]) for item in items}


def fleet_pids(home: Home) -> dict[str, int]:
    return {each.name: each.pid for each in lifecycle.list_statuses(home) if each.pid}


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
    return {*fleet_pids(home).values(), *find_engines(home).values()}


def heal(fleet: Fleet, expected: str, kept: set[tuple[str, str, str]]) -> float:
    """Return the seconds until everything is as it was; fail with what is not."""
    began = time.monotonic()
    if not lifecycle.is_supervised(fleet.home):
        fleet.modelplane("up")
    while problem := _unlike_before(fleet, expected, kept):
        assert time.monotonic() - began < PATIENCE_S, problem
        time.sleep(POLL_S)
    return time.monotonic() - began


def _unlike_before(fleet: Fleet, expected: str, kept: set[tuple[str, str, str]]) -> str:
    if states := [each for each in lifecycle.list_statuses(fleet.home) if each.state != "Running"]:
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


# What the kinds are called, and by what an object of a kind is known: its name, or only how many there are.
NAMED = "md,mr,me,ms,ic,icl,ig,deployments,services,httproutes,resourceclaimtemplates,poddisruptionbudgets"
COUNTED = "pods,resourceclaims,replicasets"
CONTEXTS = ("modelplane", "local-1", "local-2", "local-3")

Contents = frozenset[tuple[str, str, int]]
"""Objects by context, kind and name, and how many of them there are."""


@dataclass(slots=True)
class Round:
    """One tour, and whoever kills during it."""

    fleet: Fleet
    random: random.Random
    killed: list[str] = field(default_factory=list)
    _quiet: threading.Event = field(default_factory=threading.Event)

    def _kill(self) -> None:
        while not self._quiet.wait(self.random.uniform(*PAUSE_S)):
            pids = fleet_pids(self.fleet.home) | find_engines(self.fleet.home)
            ended = sum(name.endswith(ENGINES) for name in self.killed)
            names = sorted(name for name in pids if ended < MOST_ENGINES or not name.endswith(ENGINES))
            if names:
                victim = self.random.choice(names)
                kill(pids, victim)
                self.killed.append(victim)

    @contextmanager
    def deaths(self, at_least: int) -> Iterator[None]:
        """Kill while something goes on, and afterwards until so many have died."""
        goal = len(self.killed) + at_least
        self._quiet.clear()
        killer = threading.Thread(target=self._kill, daemon=True)
        killer.start()
        try:
            yield
            _until(lambda: len(self.killed) >= goal)
        finally:
            self._quiet.set()
            killer.join(10)

    def insist(self, *arguments: str) -> str:
        """Run kubectl until it succeeds: an API server that was killed is back in seconds."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.fleet.kubectl(*arguments)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                if not lifecycle.is_supervised(self.fleet.home):
                    self.fleet.modelplane("up")
                time.sleep(0.2)

    def apply(self, *files: str) -> None:
        """Apply example manifests."""
        self.insist("apply", *(part for file in files for part in ("-f", str(EXAMPLES / file))))

    def build(self) -> None:
        """Take the tour up to a model in two regions."""
        self.apply("02-build-the-platform")
        self.apply("03-deploying-a-model")
        # Until there is a replica, the deployment could go to the second region too.
        self.insist("wait", "--for=create", "mr", "-n", "ml-team", "-l", "modelplane.ai/deployment=qwen-demo")
        self.apply("04-scale-the-platform/platform-scale.yaml")
        self.apply("05-scale-the-model")
        self.insist("scale", "md/qwen-west", "-n", "ml-team", "--replicas=2")
        self.insist("scale", "md/qwen-west", "-n", "ml-team", "--replicas=1")

    def clean_up(self) -> None:
        """Take the tour to its end."""
        self.insist("delete", "md,ms", "--all", "-n", "ml-team", "--wait=false")
        self.insist("delete", "ic,icl,ig", "--all", "--wait=false")

    def until(self, holds: Callable[[], str]) -> float:
        """Return after how many seconds nothing is wrong any more; fail with what still is."""
        began = time.monotonic()
        while problem := self._problem(holds):
            assert time.monotonic() - began < PATIENCE_S, f"{problem}; killed {self.killed}"
            time.sleep(POLL_S)
        return time.monotonic() - began

    def _problem(self, holds: Callable[[], str]) -> str:
        if not lifecycle.is_supervised(self.fleet.home):
            self.fleet.modelplane("up")
        if idle := [
            each.name for each in lifecycle.list_statuses(self.fleet.home) if each.state != "Running"
        ]:
            return f"{idle} do not run"
        try:
            if problem := holds():
                return problem
        except (OSError, ValueError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
        strangers = everything(self.fleet.home) - known(self.fleet.home)
        return f"processes that nobody knows: {[_described(pid) for pid in strangers]}" if strangers else ""

    def contents(self) -> Contents:
        """Return everything of ours that is there, on every control plane."""
        found: Counter[tuple[str, str]] = Counter()
        for context in CONTEXTS:
            kinds = f"{NAMED},{COUNTED}" if context != CONTEXTS[0] else NAMED
            # The kinds of the fleet are on its own control plane only, and routes only on the others.
            ours = {"md", "mr", "me", "ms", "ic", "icl", "ig"}
            front = context == CONTEXTS[0]
            kept = [kind for kind in kinds.split(",") if (kind in ours) is front]
            listed = self.fleet.kubectl("get", ",".join(kept), "-A", "-o", "json", "--context", context)
            for item in json.loads(listed)["items"]:
                named = item["kind"] not in {"Pod", "ResourceClaim", "ReplicaSet"}
                found[context, f"{item['kind']} {item['metadata']['name'] if named else ''}"] += 1
        return frozenset((*about, count) for about, count in found.items())

    def serves(self) -> str:
        """Return what is wrong with the model in two regions; empty where nothing is."""
        told = self.fleet.kubectl("get", "ic,md,mr,me,ms", "-A", "-o", "json")
        for item in json.loads(told)["items"]:
            states = {each["type"]: each for each in item.get("status", {}).get("conditions", ())}
            if states.get("Ready", {}).get("status") != "True":
                return f"{item['kind']} {item['metadata']['name']}: {states}"
        address = self.fleet.kubectl("get", "ms", "qwen", "-n", "ml-team", "-o", "jsonpath={.status.address}")
        answers = {ask(address) for _ in range(4)}
        return "" if len(answers) == 1 else f"answers differ: {answers}"

    def left_over(self) -> str:
        """Return what there is more than a pod for each replica: the garbage collector comes later."""
        counts: Counter[str] = Counter()
        for _, about, count in self.contents():
            counts[about.partition(" ")[0]] += count
        expected = counts["ModelReplica"]
        kinds = ("Pod", "ResourceClaim", "ReplicaSet")
        left = {kind: counts[kind] for kind in kinds if counts[kind] != expected}
        return f"{left} for {expected} replicas" if left else ""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A fleet of three clusters, and what is there when nobody dies: before the tour, and at its height."""

    fleet: Fleet
    empty: Contents
    full: Contents


@pytest.fixture(scope="module")
def undisturbed(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    small = small_model.use(tmp_path_factory.mktemp("cache"))
    fleet = Fleet(Home(tmp_path_factory.mktemp("chaos")), kubernetes_binary, variables=small)
    fleet.modelplane("up", "--clusters=3", "--no-register")
    try:
        tour = Round(fleet, random.Random(0))  # noqa: S311 - nobody is killed
        empty = tour.contents()
        tour.build()
        tour.until(lambda: tour.serves() or tour.left_over())
        full = tour.contents()
        tour.clean_up()
        tour.until(lambda: _difference(tour.contents(), empty))
        yield Undisturbed(fleet, empty, full)
    finally:
        fleet.modelplane("down", "--purge")


def _difference(found: Contents, expected: Contents) -> str:
    lost, new = sorted(expected - found), sorted(found - expected)
    return f"lost: {lost}; new: {new}" if lost or new else ""


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_whoever_is_killed_during_the_tour_it_comes_to_the_same(undisturbed: Undisturbed, seed: int) -> None:
    tour = Round(undisturbed.fleet, random.Random(seed))  # noqa: S311 - to be repeated, not to be secret
    with tour.deaths(at_least=6):
        tour.build()
    built = len(tour.killed)
    served_s = tour.until(lambda: tour.serves() or _difference(tour.contents(), undisturbed.full))
    with tour.deaths(at_least=4):
        tour.clean_up()
    gone_s = tour.until(lambda: _difference(tour.contents(), undisturbed.empty))
    told = {
        "seed": seed,
        "killed_building": tour.killed[:built],
        "served_seconds": round(served_s, 1),
        "killed_cleaning_up": tour.killed[built:],
        "gone_seconds": round(gone_s, 1),
    }
    print(json.dumps(told))  # noqa: T201 - shown where a round fails, and with -s
    if RECORD:
        with Path(RECORD).open("a") as record:
            record.write(json.dumps(told) + "\n")


def test_a_fleet_that_nobody_watches_goes_on_serving_and_is_taken_over_by_the_next_up(
    served: Fleet,
) -> None:
    expected, kept = ask(address_of(served)), objects(served)
    before = fleet_pids(served.home) | find_engines(served.home)
    with Traffic(address_of(served)).flowing() as traffic:
        for name in SUPERVISORS:
            kill(before, name)
        _until(lambda: not lifecycle.is_supervised(served.home))
        time.sleep(1)
        states = {each.name: each.state for each in lifecycle.list_statuses(served.home)}
        assert {name for name, state in states.items() if state != "Running"} == set(SUPERVISORS)
        kill(before, "control-plane")
        _until(lambda: locks.find_holder(served.home.lock("control-plane")) is None)
        states = {each.name: each.state for each in lifecycle.list_statuses(served.home)}
        assert states["control-plane"] == "Stopped", "nobody starts it again"
        heal(served, expected, kept)
    assert (traffic.failures, set(traffic.answers)) == (0, {expected})
    after = fleet_pids(served.home) | find_engines(served.home)
    renewed = {*SUPERVISORS, "control-plane"}
    assert {name: pid for name, pid in after.items() if name not in renewed} == {
        name: pid for name, pid in before.items() if name not in renewed
    }


def test_after_a_power_failure_up_brings_back_the_same_fleet(served: Fleet) -> None:
    expected, kept = ask(address_of(served)), objects(served)
    before = fleet_pids(served.home)
    for name in SUPERVISORS:
        kill(before, name)
    # Those that are still alive may start others.
    _until(lambda: not _killed(everything(served.home)))
    attempt = next(iter(AgentDirectory(served.home.agent).list_pods()[0].list_attempts()))
    for record in (served.home.record("etcd"), attempt.directory / "engine.json"):
        record.write_bytes(b"")
    heal(served, expected, kept)


def _killed(pids: set[int]) -> set[int]:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _until(holds: object, timeout_s: float = PATIENCE_S) -> None:
    assert callable(holds)
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)
