"""Rules of the code that a machine can check."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "modelplane"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BANNED = {"utils", "util", "helpers", "common", "base", "misc", "part2"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_is_named_for_one_concept(path: Path) -> None:
    assert path.stem not in BANNED


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_opens_with_its_idea(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES + TESTS, ids=_name)
def test_a_suppression_names_its_rule_and_its_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := re.search(r"#\s*(noqa|type:\s*ignore)(.*)$", line):
            rest = found.group(2)
            assert re.match(r"(: [A-Z]+[0-9]+(, [A-Z]+[0-9]+)*|\[[a-z-]+(, ?[a-z-]+)*\])\s+\S", rest), (
                f"{_name(path)}:{number}"
            )
