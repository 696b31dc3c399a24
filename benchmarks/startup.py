"""Time how soon the command line answers.

    python benchmarks/startup.py --rounds 11 [--fleet]

Prints one line of JSON: the median seconds of processor time, of the user and the system together, of
`modelplane --help`, of `modelplane validate` on one small file, of `modelplane explain` on the files of a
small fleet, of an import of the libraries that `validate` stands on, and of Python itself, which nothing can
be faster than; with `--fleet` also of `modelplane status`, of a fleet on this machine that it starts and
stops. Each `_ratio` is that time in starts of Python, which one can compare between machines. The command
is the script that pip installed. Modelplane is compiled before the first round.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bytecode

MANIFEST = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {name: qwen, namespace: ml-team}
spec:
  replicas: 1
  engines:
    - name: qwen
      members:
        - nodeSelector:
            devices:
              - name: gpu
                selectors:
                  - cel: device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0
          template:
            spec:
              containers:
                - {name: engine, image: "vllm/vllm-openai:v0.23.0"}
"""
MODELPLANE = str(Path(sys.executable).with_name("modelplane"))
LIBRARIES = """\
import click, yaml, msgspec, jsonschema_rs
from cel_expr_python import cel
cel.NewEnv().compile("true")
"""

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPLAIN = ("explain", "qwen-demo", "-n", "ml-team")
FLEET = ("02-build-the-platform", "03-deploying-a-model")


def median_s(rounds: int, *command: str) -> float:
    environment = bytecode.environ()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    times = []
    for _ in range(rounds):
        before = children_s()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        times.append(children_s() - before)
    return round(statistics.median(times), 4)


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def local_fleet(home: str) -> Iterator[None]:
    subprocess.run((MODELPLANE, "up", "--home", home), check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run((MODELPLANE, "down", "--purge", "--home", home), check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="how often each is run")
    parser.add_argument("--fleet", action="store_true", help="time status too, of a fleet on this machine")
    options = parser.parse_args()
    rounds = options.rounds
    bytecode.compile_modules()
    fleet = [word for folder in FLEET for word in ("--fleet", str(EXAMPLES / folder))]
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "deployment.yaml")
        manifest.write_text(MANIFEST)
        result = {
            "help_s": median_s(rounds, MODELPLANE, "--help"),
            "validate_s": median_s(rounds, MODELPLANE, "validate", str(manifest)),
            "explain_s": median_s(rounds, MODELPLANE, *EXPLAIN, *fleet),
            "libraries_s": median_s(rounds, sys.executable, "-c", LIBRARIES),
            "python_s": median_s(rounds, sys.executable, "-c", "pass"),
        }
        if options.fleet:
            home = str(Path(folder, "home"))
            with local_fleet(home):
                result["status_s"] = median_s(rounds, MODELPLANE, "status", "--home", home)
    commands = ("help", "validate", "explain", "status") if options.fleet else ("help", "validate", "explain")
    ratios = {f"{each}_ratio": round(result[f"{each}_s"] / result["python_s"], 1) for each in commands}
    print(json.dumps(result | ratios))


if __name__ == "__main__":
    main()
