"""From nothing to the first token: seconds of each stage, and memory by process.

    python benchmarks/first_answer.py --json [--cold] [--clusters N]

``--cold`` also builds the control plane's binary with empty Go caches, which takes minutes;
``--clusters`` also starts a fleet of several clusters and weighs each of them. One JSON object goes to
standard output, progress to standard error. Everything happens in a temporary home. Memory is what each
process has for itself and its share of the rest, so nothing else of the same environment should run.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import bytecode

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "01-first-answer"
LATER_S = 60
QUESTION = {
    "messages": [{"role": "user", "content": "The capital of France is"}],
    "max_tokens": 16,
    "stream": True,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--cold", action="store_true", help="build the binary with empty caches first")
    parser.add_argument("--clusters", type=int, default=0, help="weigh a fleet of so many clusters too")
    parser.add_argument("--no-rest", action="store_true", help="end at the answer, without a minute of rest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="modelplane-bench-") as folder:
        result = measure(Path(folder), cold=options.cold, rest=not options.no_rest)
        if options.clusters:
            result["clusters"] = weigh(Path(folder), options.clusters)
    if options.json:
        print(json.dumps(result))
    else:
        print(json.dumps(result, indent=2))
    return 0


def measure(folder: Path, *, cold: bool, rest: bool) -> dict[str, Any]:
    environment = bytecode.environ() | {"MODELPLANE_HOME": str(folder / "home")}
    result: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"}
    if cold:
        say("building the control plane with empty caches")
        result["build_seconds"] = build(folder)
    # Neither the binary nor bytecode is part of the start: an installation has both.
    find_or_build(environment)
    bytecode.compile_modules()
    try:
        started = time.monotonic()
        say("modelplane up")
        run(environment, "up")
        result["up_seconds"] = since(started)
        result |= stages(environment, started)
        applied = time.monotonic()
        run(environment, "kubectl", "apply", "-f", str(EXAMPLE))
        run(
            environment, "kubectl", "wait", "--for=condition=Ready", "ms/first-answer",
            "-n", "ml-team", "--timeout=120s",
        )  # fmt: skip
        result["apply_to_ready_seconds"] = since(applied)
        asked = time.monotonic()
        tokens, first = ask(environment)
        result["first_token_seconds"] = round(first - asked, 3)
        result["up_to_first_token_seconds"] = round(first - started, 3)
        result["tokens_per_second"] = round(tokens / max(time.monotonic() - first, 1e-6), 1)
        result["memory_mb"] = memory(environment) | {"engine": engine_memory(folder)}
        if rest:
            say("a minute of rest")
            time.sleep(LATER_S)
            result["memory_a_minute_later_mb"] = memory(environment) | {"engine": engine_memory(folder)}
        return result
    finally:
        run(environment, "down", "--purge")


def weigh(folder: Path, clusters: int) -> dict[str, Any]:
    """Return how long a fleet of several clusters takes to start, and its memory a minute later."""
    environment = bytecode.environ() | {"MODELPLANE_HOME": str(folder / "clusters")}
    try:
        started = time.monotonic()
        say(f"modelplane up --clusters {clusters}")
        run(environment, "up", "--clusters", str(clusters))
        took = since(started)
        time.sleep(LATER_S)
        weighed = memory(environment)
    finally:
        run(environment, "down", "--purge")
    names = [f"local-{number}" for number in range(1, clusters + 1)]
    by_cluster = {
        name: round(sum(size for process, size in weighed.items() if process.startswith(f"{name}-")), 1)
        for name in names
    }
    return {"up_seconds": took, "memory_mb": weighed, "by_cluster_mb": by_cluster}


def memory(environment: dict[str, str]) -> dict[str, float]:
    """Return the megabytes of each process but engines, and of all."""
    status = json.loads(run(environment, "status", "-o", "json"))
    each = {process["name"]: round(process["memoryBytes"] / 2**20, 1) for process in status["processes"]}
    return each | {"all": round(sum(each.values()), 1)}


def build(folder: Path) -> float:
    """Return how long the binary takes with every cache empty."""
    caches = {name: str(folder / name) for name in ("GOCACHE", "GOMODCACHE", "XDG_CACHE_HOME")}
    environment = os.environ | caches | {"GOFLAGS": "-modcacherw"}
    environment.pop("MODELPLANE_KUBERNETES_BINARY", None)
    started = time.monotonic()
    find_or_build(environment)
    elapsed = since(started)
    for path in caches.values():
        shutil.rmtree(path, ignore_errors=True)
    return elapsed


FIND_OR_BUILD = """\
try:
    from modelplane.local import binary
except ImportError:  # release 0.9, which this checkout is compared with
    from modelplane.local.builds import binary
binary.find_or_build(lambda progress: None)
"""


def find_or_build(environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", FIND_OR_BUILD], env=environment, check=True)


def stages(environment: dict[str, str], started: float) -> dict[str, Any]:
    """Return when the control plane and the controllers were ready, by the supervisor's own records."""
    status = json.loads(run(environment, "status", "-o", "json"))
    offset = time.time() - (time.monotonic() - started)
    ready = {process["name"]: round(process["since"] - offset, 2) for process in status["processes"]}
    plane = ("etcd", "control-plane")
    return {
        "control_plane_ready_seconds": max(ready[name] for name in plane),
        "controllers_ready_seconds": ready["controller"],
    }


def ask(environment: dict[str, str]) -> tuple[int, float]:
    """Return how many pieces an answer had, and when the first one came."""
    address = run(
        environment,
        "kubectl",
        "get",
        "ms",
        "first-answer",
        "-n",
        "ml-team",
        "-o",
        "jsonpath={.status.address}",
    )
    request = urllib.request.Request(
        f"{address}/v1/chat/completions",
        json.dumps(QUESTION | {"model": "gemma"}).encode(),
        {"Content-Type": "application/json"},
    )
    first, pieces = 0.0, 0
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            if b'"content":"' in line.replace(b" ", b""):
                first = first or time.monotonic()
                pieces += 1
    return pieces, first


def engine_memory(folder: Path) -> float:
    import psutil

    def ours(process: psutil.Process) -> bool:
        command = " ".join(process.info["cmdline"] or ())
        return "llama_cpp" in command and "shim" not in command and str(folder) in str(process.environ())

    processes = [each for each in psutil.process_iter(["cmdline"]) if ours(each)]
    return round(sum(each.memory_full_info().pss for each in processes) / 2**20, 1)


def run(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "modelplane.cli.main", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def since(start: float) -> float:
    return round(time.monotonic() - start, 3)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
