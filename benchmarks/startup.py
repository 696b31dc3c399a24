"""Time how soon the command line answers.

    python benchmarks/startup.py --rounds 11

Prints one line of JSON: the median seconds of `modelplane --help`, of `modelplane validate` on one small
file, of an import of the libraries that `validate` stands on, and of Python itself, which nothing can be
faster than. The command is the script that pip installed. Compare two runs on one idle machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def median_s(rounds: int, *command: str) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return round(statistics.median(times), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="how often each is run")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "deployment.yaml")
        manifest.write_text(MANIFEST)
        result = {
            "help_s": median_s(rounds, MODELPLANE, "--help"),
            "validate_s": median_s(rounds, MODELPLANE, "validate", str(manifest)),
            "libraries_s": median_s(rounds, sys.executable, "-c", LIBRARIES),
            "python_s": median_s(rounds, sys.executable, "-c", "pass"),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
