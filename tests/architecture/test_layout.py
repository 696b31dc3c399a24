"""Rules of the code that a machine can check."""

import ast
import functools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BANNED = {"utils", "util", "helpers", "common", "base", "misc", "part2"}
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 70

LONG = {
    "src/modelplane/api/conditions/reasons.py": "one table, a row for each reason of a condition",
    "src/modelplane/telemetry/metric_definitions.py": "one table, an entry for each metric",
}
"""Files, or functions as ``path::name``, that hold one concept that is long, and which one."""

MOST_MODULES = 20
"""Of a folder, beside its ``__init__``."""

TWICE = {
    "a kind's type, and what composes it": (
        "device_quota inference_autoscaler inference_class inference_cluster inference_gateway model_cache"
        " model_deployment model_endpoint model_key model_replica model_service"
    ),
    "the clusters of a cloud, and tokens for them": "nebius",
    "the same part of each decider": "decision evidence state",
    "the errors of a package": "errors",
    "the kinds of an API": "kinds",
    "where a process begins": "main",
    "what answers requests": "server",
    "the rows of a package": "table",
    "a command, and what processes count": "metrics",
}
"""Names of modules that several folders have, by the reason."""

_REFERENCE = re.compile(r"\b(?:see|one of)\s+``(\w+)[\w.]*``", re.IGNORECASE)
_SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore)(.*)$")
_EXPLAINED = re.compile(r"(: [A-Z]+[0-9]+(, [A-Z]+[0-9]+)*|\[[a-z-]+(, ?[a-z-]+)*\])\s+\S")


@functools.cache
def _texts(folder: str) -> dict[str, str]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@functools.cache
def _trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in _texts("src").items()}


def test_a_module_is_named_for_one_concept() -> None:
    assert [name for name in _texts("src") if Path(name).stem in BANNED] == []


def test_a_module_opens_with_its_idea() -> None:
    assert [name for name, tree in _trees().items() if not ast.get_docstring(tree)] == []


def test_a_suppression_names_its_rule_and_its_reason() -> None:
    unexplained = [
        f"{name}:{number}"
        for name, text in (_texts("src") | _texts("tests")).items()
        for number, line in enumerate(text.splitlines(), 1)
        if (found := _SUPPRESSION.search(line)) and not _EXPLAINED.match(found[2])
    ]
    assert unexplained == []


def test_a_file_and_a_function_are_short_or_hold_one_long_concept() -> None:
    files = {name for name, text in _texts("src").items() if len(text.splitlines()) > MOST_LINES}
    functions = {long for name, tree in _trees().items() for long in _long_functions(name, tree)}
    assert sorted(files | functions) == sorted(LONG)


def _pure_folders() -> list[str]:
    """Return the modules of the contract that decide, as starts of paths."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [pure] = [each for each in project["tool"]["importlinter"]["contracts"] if each["id"] == "pure"]
    return [f"src/{name.replace('.', '/')}" for name in pure["source_modules"]]


def _clocks(tree: ast.Module) -> list[str]:
    """Return the calls of a clock that need no import of ``time``."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if call.endswith((".now", ".utcnow", ".today"))]


def test_what_decides_asks_no_clock_of_a_datetime() -> None:
    folders = _pure_folders()
    asked = {
        name: clocks
        for name, tree in _trees().items()
        if any(name.startswith((f"{folder}.py", f"{folder}/")) for folder in folders)
        and (clocks := _clocks(tree))
    }
    assert asked == {}


def test_a_clock_of_a_datetime_is_recognized() -> None:
    asked = "import datetime\ndatetime.datetime.now(datetime.UTC), datetime.date.today(), request.now"
    assert _clocks(ast.parse(asked)) == ["datetime.datetime.now", "datetime.date.today"]


def test_a_reference_to_a_module_or_a_name_resolves() -> None:
    modules = {Path(name).stem for name in _trees()}
    dangling = [
        f"{name}: {found}"
        for name, text in _texts("src").items()
        for found in _REFERENCE.findall(text)
        if found not in modules | _defined(_trees()[name])
    ]
    assert dangling == []


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module defines."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    named = {node.name for node in ast.walk(tree) if isinstance(node, definitions)}
    stored = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return named | stored


def _long_functions(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            if last - node.lineno >= MOST_LINES_OF_A_FUNCTION:
                yield f"{name}::{node.name}"


def test_the_target_for_tests_with_a_control_plane_names_every_folder_of_them() -> None:
    [named] = re.findall(r"-m kubernetes --numprocesses[^\n]*\\\n\t+(.+)", (ROOT / "Makefile").read_text())
    marked = {
        "/".join(Path(name).parts[:2])
        for name, text in _texts("tests").items()
        if re.search(r"\bmark\.kubernetes\b", text)
    }
    assert set(named.split()) == marked


def test_each_module_of_a_folder_for_real_things_has_its_mark() -> None:
    """``make test`` does not read these folders."""
    unmarked = [
        path
        for mark in ("kubernetes", "engines")
        for path, text in _texts(f"tests/{mark}").items()
        if Path(path).name.startswith("test_") and f"pytest.mark.{mark}" not in text
    ]
    assert unmarked == []


def test_a_folder_has_few_modules() -> None:
    folders = Counter(
        Path(name).parent.as_posix() for name in _texts("src") if not name.endswith("/__init__.py")
    )
    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_a_module_has_a_name_of_its_own_or_a_reason() -> None:
    stems = Counter(Path(name).stem for name in _texts("src") if not name.endswith("/__init__.py"))
    allowed = {stem for stems_of_a_reason in TWICE.values() for stem in stems_of_a_reason.split()}
    assert {stem for stem, count in stems.items() if count > 1} == allowed
