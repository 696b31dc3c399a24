"""What depends on one of our kinds is a field of the kind's row, and not a comparison with its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.api.kinds import KINDS
from modelplane.compose import workload_kinds

SOURCE = Path(__file__).parents[2] / "src" / "modelplane"
OURS = {kind.name: kind.module for kind in KINDS}
EXCEPTIONS = {
    "api/kinds.py": "the rows themselves: a type is imported when it is first asked for",
    "api/conditions/reasons.py": "the table of reasons, by kind: the types import it",
    "cli/inspect/explain.py": "a command names kinds before it loads their types, so that it starts quickly",
    "offline/lint/advice.py": "the rules by kind: a rule is imported when an object needs it",
    "offline/lint/label_keys.py": "the labels that objects of a kind have: a table of its own",
    "offline/lint/cluster_labels.py": "the kind that a selector selects",
    "offline/lint/endpoint_labels.py": "the kind that a selector selects",
    "offline/check/renamed_fields.py": "the table of former kinds and fields",
}
"""Modules that name kinds beside their rows, and why."""


def _texts(path: Path) -> Iterator[ast.Constant]:
    """Yield the string literals of a module that are no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node


def _named(path: Path) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)}:{text.lineno} names {text.value}"
        for text in _texts(path)
        if text.value in OURS and path.stem != OURS[text.value]
    ]


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_a_kind_of_ours_is_named_by_its_type(folder: str) -> None:
    modules = (path for path in (SOURCE / folder).rglob("*.py"))
    checked = [path for path in modules if str(path.relative_to(SOURCE)) not in EXCEPTIONS]
    assert [named for path in sorted(checked) for named in _named(path)] == []


@pytest.mark.parametrize("module", EXCEPTIONS)
def test_an_exception_is_one(module: str) -> None:
    assert _named(SOURCE / module) != [], "it names no kind any more: take it off the list"


CAPABLE = {row.kind for row in workload_kinds.ROWS.values() if row.capability}
ALSO = {
    "compose/workload_kinds.py",
    "compose/replica/backends/gang.py",
    "compose/replica/backends/replica_routes.py",
    "gateway/gateway_api/http_routes.py",
    "kube/resources.py",
    "scheduler/filters/capabilities.py",
}
"""The row, the modules that compose such objects, those that serve them on one machine, and the sentence that
refuses."""


def test_a_kind_that_not_every_cluster_has_is_named_in_its_row_and_where_it_is_made() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(text.value in CAPABLE for text in _texts(path))
    }
    assert found == ALSO
