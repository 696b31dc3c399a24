"""A case's id says on its own what the case is: a failure line shows no other."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LEANING = {"also", "and", "but", "nor", "or", "so", "then", "unless", "until", "which", "yet"}


def leaning(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find the ids, given one by one or as a list, that begin with a word that joins them to another."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"id", "ids"}:
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    first, *_ = part.value.lower().split() or [""]
                    if first.rstrip(",:;") in LEANING:
                        yield part.lineno, part.value


def test_an_id_does_not_lean_on_the_case_before() -> None:
    assert [
        f"{path.relative_to(TESTS)}:{line}: {text}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, text in leaning(ast.parse(path.read_text()))
    ] == []


def test_ids_are_found_however_they_are_given() -> None:
    module = 'param(1, id="And more"), parametrize("x", [1, 2], ids=["one", "so, two"]), f(id=f"or {x}")'
    assert [text for _, text in leaning(ast.parse(module))] == ["And more", "so, two", "or "]
