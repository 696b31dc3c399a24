"""Compare a benchmark of this checkout with the same one of another commit, in turns.

    python benchmarks/compare.py --base COMMIT --pairs 20 schedule -- --clusters 1000 --json

Runs `benchmarks/NAME.py` of either checkout, each with a Python of its own, one after the other, as often
as there are pairs, so that a machine whose speed drifts is as slow for both. Prints one JSON line: for each
figure of the benchmark and for the processor time of the whole run (`cpu_s`) the median of the ratios `this
/ base` with its 95 % interval, by order statistics: with 20 pairs, from the sixth ratio to the fifteenth.
What lies wholly above 1.05 is named in `slower`, and the exit status is then 1.
"""

import argparse
import io
import json
import math
import resource
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SLOWER = 1.05
OF_COMMANDS = ("first_answer", "startup")
"""Benchmarks that only run commands: either checkout is measured by the script of this one."""
IN_ONE_PROCESS = ("schedule", "function")
"""Benchmarks that time calls, without the garbage collector: which round a collection falls in is chance, and
one of all objects takes several times what a placement does."""
WITHOUT_COLLECTOR = """
import gc, os, runpy, sys
gc.disable()
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def environment(checkout: Path, folder: Path) -> Path:
    """Make an environment of this one's packages and a checkout's code, and return its Python.

    A variable would not do: the processes of a fleet do not pass it to a model's engine.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    found = [str(checkout / "src"), sysconfig.get_path("purelib")]
    (packages / "compared.pth").write_text("\n".join(found) + "\n")
    script = folder / "bin" / "modelplane"
    script.write_text(f"#!{folder}/bin/python\nfrom modelplane.cli.main import main\nmain()\n")
    script.chmod(0o755)
    return folder / "bin" / "python"


def measured(checkout: Path, python: Path, name: str, arguments: list[str]) -> dict[str, float]:
    """Return the figures of one run of a checkout's benchmark."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            str(python),
            *(("-c", WITHOUT_COLLECTOR) if name in IN_ONE_PROCESS else ()),
            str((ROOT if name in OF_COMMANDS else checkout) / "benchmarks" / f"{name}.py"),
            *arguments,
        ],
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    kept = {
        key: float(value)
        for key, value in figures.items()
        if isinstance(value, int | float) and key.endswith(("_s", "seconds", "_mb"))
    }
    return kept | {"cpu_s": cpu_s}


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median of some ratios between the bounds of its 95 % interval."""
    ordered, pairs = sorted(ratios), len(ratios)
    lowest = max(math.floor((pairs - 1.96 * math.sqrt(pairs)) / 2), 0)
    return ordered[lowest], statistics.median(ordered), ordered[pairs - 1 - lowest]


def check_out(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def ratios(pythons: dict[Path, Path], pairs: int, name: str, arguments: list[str]) -> dict[str, list[float]]:
    """Return the ratios of each figure, a value for each pair; the checkouts take turns to be first."""
    base, this = pythons
    found: dict[str, list[float]] = {}
    for number in range(pairs):
        order = (this, base) if number % 2 else (base, this)
        figures = {each: measured(each, pythons[each], name, arguments) for each in order}
        for key, value in figures[this].items():
            if figures[base].get(key):
                found.setdefault(key, []).append(value / figures[base][key])
    return found


def compared(pythons: dict[Path, Path], pairs: int, name: str, arguments: list[str]) -> dict[str, Any]:
    """Return the median ratio of each figure with its interval."""
    values = ratios(pythons, pairs, name, arguments)
    found = {key: [round(each, 3) for each in interval(values[key])] for key in sorted(values)}
    slower = [key for key, (lowest, _, _) in found.items() if lowest > SLOWER]
    return {"benchmark": name, "pairs": pairs, "ratios": found, "slower": slower}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("name", help="of the benchmark: schedule, function, startup, ...")
    parser.add_argument("arguments", nargs="*", help="for the benchmark, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check_out(options.base, Path(folder, "base"))
        pythons = {
            checkout: environment(checkout, Path(folder, f"python-{number}"))
            for number, checkout in enumerate((Path(folder, "base"), ROOT))
        }
        result = compared(pythons, options.pairs, options.name, options.arguments)
    print(json.dumps(result))
    sys.exit(1 if result["slower"] else 0)


if __name__ == "__main__":
    main()
