"""Print how fast this checkout is, against baselines that never move.

    python benchmarks/history.py --pairs 20 --json

Measures each row of `ROWS` and prints a table, or one JSON object. A row with a commit runs the same
benchmark of that commit and of this checkout in turns. A row of the gateway compares a stack with a bare
Envoy in the same round, and a row of a fleet the controllers with etcd and the API server over the same
work. A figure is the median with its 95 % interval, by order statistics. It is slow if its interval lies
wholly above 1.1 of its baseline; the exit status is then 1. `--only` names groups to measure, `--page FILE`
also writes the table as a page of the documentation.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import compare

FIRST: Final = "391c3ab"
"""The commit that placement, the function and start-up are compared with."""
LAST_RELEASE: Final = "92da5e84"
"""Release 0.8.0, which the first answer is compared with."""
SLOW: Final = 1.1
FLEET_RUNS: Final = 6
"""The smallest number of runs whose extremes bound a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure: of which benchmark, with which options, and its baseline, to which `what` is relative."""

    group: str
    what: str
    benchmark: str
    key: str
    options: tuple[str, ...] = ()
    base: str = ""
    baseline: float = 1.0


PLACEMENT: Final = ("--clusters", "1000", "--pools", "3", "--replicas", "10", "--json")
MANY: Final = ("--clusters", "10000", "--pools", "4", "--replicas", "1000", "--rounds", "3", "--json")
ROWS: Final = (
    Row("schedule", "10 replicas on 1,000 x 3 pools", "schedule", "seconds", PLACEMENT, FIRST),
    Row("schedule", "1,000 replicas on 10,000 x 4 pools", "schedule", "seconds", MANY, FIRST),
    Row("schedule", "no pool fits", "schedule", "seconds", (*PLACEMENT, "--case", "none"), FIRST),
    Row("function", "first call for a deployment", "function", "first_seconds", ("--json",), FIRST),
    Row("function", "repeated call", "function", "repeated_seconds", ("--json",), FIRST),
    Row("startup", "modelplane --help", "startup", "help_s", (), FIRST),
    Row("startup", "modelplane validate of one object", "startup", "validate_s", (), FIRST),
    Row(
        "first answer",
        "up to the first token",
        "first_answer",
        "up_to_first_token_seconds",
        ("--no-rest", "--json"),
        LAST_RELEASE,
    ),
    Row("first answer", "modelplane up", "first_answer", "up_seconds", ("--no-rest", "--json"), LAST_RELEASE),
    Row("gateway", "keys and limits", "gateway", "keys and limits", baseline=1.13),
    Row("gateway", "everything", "gateway", "everything", baseline=1.21),
    Row("gateway", "everything, streaming", "gateway", "everything, streaming", baseline=1.17),
    Row("fleet", "controllers / (etcd + API server)", "fleet", "share", baseline=0.35),
)
GROUPS: Final = tuple(dict.fromkeys(row.group for row in ROWS))


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured row: median, 95 % interval, and whether all of it is above 1.1 of the baseline."""

    group: str
    what: str
    relative_to: str
    baseline: float
    low: float
    median: float
    high: float
    slow: bool


def figure(row: Row, values: Sequence[float]) -> Figure:
    """Return the median of the values and its interval."""
    low, median, high = (round(each, 3) for each in compare.interval(list(values)))
    relative_to = row.base or {"gateway": "bare Envoy", "fleet": "etcd and the API server"}[row.group]
    return Figure(
        row.group, row.what, relative_to, row.baseline, low, median, high, low > SLOW * row.baseline
    )


def run(name: str, *options: str) -> Any:
    """Return what a benchmark of this checkout prints."""
    program = compare.ROOT / "benchmarks" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(program), *options], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def against_commits(rows: Iterable[Row], pairs: int) -> Iterable[Figure]:
    """Measure rows in turns with their commits; rows of one command share its runs."""
    rows = list(rows)
    with tempfile.TemporaryDirectory() as folder:
        for base in dict.fromkeys(row.base for row in rows):
            checkout = Path(folder, base)
            compare.check_out(base, checkout)
            pythons = {
                each: compare.environment(each, Path(folder, f"python-{base}-{number}"))
                for number, each in enumerate((checkout, compare.ROOT))
            }
            mine = [row for row in rows if row.base == base]
            for command in dict.fromkeys((row.benchmark, row.options) for row in mine):
                say(f"{command[0]} {' '.join(command[1])} beside {base}, {pairs} pairs")
                ratios = compare.ratios(pythons, pairs, command[0], list(command[1]))
                for row in mine:
                    if (row.benchmark, row.options) == command:
                        yield figure(row, ratios[row.key])


def of_gateway(rows: Iterable[Row], rounds: int) -> Iterable[Figure]:
    """Measure the gateway's stacks against a bare Envoy, round by round."""
    say(f"gateway, {rounds} rounds")
    stacks = run("gateway", "--rounds", str(rounds), "--json")["stacks"]
    for row in rows:
        yield figure(row, stacks[row.key]["processor time per request"]["rounds"])


def of_fleet(rows: Iterable[Row], clusters: int) -> Iterable[Figure]:
    """Measure the processor time of the controllers as a share of that of the servers."""
    # Only the deployments are timed here: no minute of rest, and none beyond them.
    rest = ("--others", "10", "--quiet", "1")
    options = ("--clusters", str(clusters), "--deployments", str(max(clusters // 10, 1)), *rest, "--json")
    shares = []
    for number in range(FLEET_RUNS):
        say(f"fleet of {clusters} clusters, run {number + 1} of {FLEET_RUNS}")
        shares.append(share(run("fleet", *options)["cpu_seconds"]))
        say(f"share {shares[-1]:.3f}")
    return [figure(row, shares) for row in rows]


def share(cpu_seconds: Mapping[str, float]) -> float:
    """Return the controllers' processor time as a share of etcd's and the API server's."""
    return cpu_seconds["controllers"] / (cpu_seconds["etcd"] + cpu_seconds["kube-apiserver"])


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a table in Markdown."""
    lines = ["| Group | Figure | Relative to | Median | 95 % interval | Bar |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {each.group} | {each.what} | {each.relative_to} | {each.median:.2f} "
        f"| {each.low:.2f} to {each.high:.2f} | {each.baseline * SLOW:.2f}{' (slow)' if each.slow else ''} |"
        for each in figures
    ]
    return "\n".join(lines)


PAGE: Final = """\
# Speed over time

`python benchmarks/history.py` compares this checkout with fixed baselines: a commit, a bare Envoy, or etcd
and the API server. It measures this checkout and the baseline alternately on one machine. Each figure is a
ratio: 1 is as fast as the baseline, and 2 takes twice as long. If an interval is entirely above the bar, the
figure is a defect.

{table}

Measured on {machine}.
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--pairs", type=int, default=20, help="runs of each commit, and rounds of the gateway"
    )
    parser.add_argument("--clusters", type=int, default=1000, help="clusters of the fleet")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="groups to measure")
    parser.add_argument("--page", type=Path, help="also write the table as a page to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    rows = [row for row in ROWS if row.group in options.only]
    figures = [*against_commits((row for row in rows if row.base), options.pairs)]
    if of := [row for row in rows if row.group == "gateway"]:
        figures += of_gateway(of, max(options.pairs, 4))
    if of := [row for row in rows if row.group == "fleet"]:
        figures += of_fleet(of, options.clusters)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    if options.page:
        options.page.write_text(PAGE.format(table=table(figures), machine=machine))
    slow = [f"{each.group}: {each.what}" for each in figures if each.slow]
    if options.json:
        print(json.dumps({"machine": machine, "figures": [asdict(each) for each in figures], "slow": slow}))
    else:
        print(table(figures))
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
