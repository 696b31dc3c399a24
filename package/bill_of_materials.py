# ruff: noqa: INP001  a script's module, not a package
"""Bills of materials (CycloneDX) of what users install: Python packages, Go modules, and crates."""

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("cyclonedx-bom==7.5.0",)
EXTRAS = ("local", "function", "otel", "google", "aws", "nebius", "mutual-tls", "dashboard", "mcp")
"""The extras for users."""

SHIPPED = f".[{','.join(EXTRAS)}]"

Json = dict[str, Any]

_CRATE = re.compile(r"^(\S+) v(\S+)(?: \(.*\))?\t(.*)$", re.MULTILINE)


def environment(folder: Path, *packages: str) -> Path:
    """Make an environment with packages and without pip; return the folder of its programs."""
    programs = folder / "bin"
    venv.create(folder)
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet")
    subprocess.run([*pip, "--disable-pip-version-check", *packages], cwd=ROOT, check=True)
    return programs


def write(tools: Path, shipped: Path, bill: Path) -> Json:
    """Write the bill of the Python packages in an environment, and return it."""
    about = ("--pyproject", "pyproject.toml", "--output-reproducible")
    subprocess.run(
        [tools / "cyclonedx-py", "environment", shipped / "python", *about, "--output-file", bill],
        cwd=ROOT,
        check=True,
    )
    found: Json = json.loads(bill.read_text(encoding="utf-8"))
    return found


def go_modules(printed: str) -> Iterator[Json]:
    """Yield the modules in a binary, from what ``go version -m`` prints of it."""
    found: list[tuple[str, str]] = []
    for line in printed.splitlines():
        match line.strip().split("\t"):
            case ["dep", name, version, *_]:
                found.append((name, version))
            case ["=>", name, version, *_]:
                # A replacement follows the module that it replaces, and is what was compiled.
                found[-1] = (name, version)
    for name, version in found:
        yield _component(name, version, f"pkg:golang/{name}@{version}")


def crates(printed: str) -> Iterator[Json]:
    """Yield the crates in the gateway module, from the tree that cargo prints."""
    for name, version, licenses in sorted(set(_CRATE.findall(printed))):
        if name != "modelplane-gateway":
            found = _component(name, version, f"pkg:cargo/{name}@{version}")
            # Older crates write a slash for OR.
            yield found | {"licenses": [{"expression": licenses.replace("/", " OR ")}]} if licenses else found


def extended(bill: Json, components: Iterable[Json]) -> Json:
    """Return a bill with more components."""
    return bill | {"components": [*bill.get("components", ()), *components]}


def _component(name: str, version: str, purl: str) -> Json:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
