"""How many tests, assertions and golden files a checkout has.

They may change; a comparison shows by how much, and which tests are gone, so that each removal can be named.
"""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from contract.golden_cases import golden_cases

_COLLECTED = re.compile(r"^(\S+?\.py)::(\w+(?:::\w+)*)")


def counts(checkout: Path) -> dict[str, Any]:
    """Return the counts; ``tests`` has the number of cases of each test function, by its name."""
    tests = checkout / "tests"
    functions = _collected(checkout)
    return {
        "cases": sum(functions.values()),
        "assertions": sum(map(_assertions, sorted(tests.rglob("*.py")))),
        "goldens": len(golden_cases(checkout)),
        "lines of src": sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in (checkout / "src").rglob("*.py")
        ),
        "tests": dict(sorted(functions.items())),
    }


def _assertions(path: Path) -> int:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return sum(isinstance(node, ast.Assert) or _expects_an_error(node) for node in nodes)


def _expects_an_error(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises"


def _collected(checkout: Path) -> Counter[str]:
    listed = subprocess.run(
        (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        raise SystemExit(f"the tests of {checkout} cannot be collected:\n{listed.stdout}{listed.stderr}")
    found = (_COLLECTED.match(line) for line in listed.stdout.splitlines())
    return Counter(match.group(2) for match in found if match)
