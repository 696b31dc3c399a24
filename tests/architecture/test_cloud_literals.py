"""Every value that a cloud is given is a field, or a constant whose source is named."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.api.clouds.cloud_rows import Cloud

CLOUDS = Path(__file__).parents[2] / "src" / "modelplane" / "compose" / "clouds"
NAMES = {cloud.lower() for cloud in Cloud}
COMPOSING = sorted(path for path in CLOUDS.glob("*.py") if path.stem.partition("_")[0] in NAMES)


def _literals(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the literals among the values of dictionaries that functions build."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Dict):
                yield from (found for value in node.values for found in _constants(value))


def _constants(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.Constant | ast.JoinedStr):
        yield value
    elif isinstance(value, ast.List | ast.Tuple | ast.Set):
        for item in value.elts:
            yield from _constants(item)


def _unsourced(tree: ast.Module) -> Iterator[str]:
    """Yield the constants of a module without a docstring that names a source."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        [target] = node.targets if isinstance(node, ast.Assign) else [node.target]
        name = target.id if isinstance(target, ast.Name) else ""
        value = after.value if isinstance(after, ast.Expr) else None
        text = value.value if isinstance(value, ast.Constant) else ""
        if name != "RECIPE" and "Source: " not in str(text) and text != "In messages.":
            yield name


@pytest.mark.parametrize("path", COMPOSING, ids=lambda path: path.stem)
def test_a_composed_value_is_a_field_or_a_constant_with_a_source(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [f"line {each.lineno}: {ast.unparse(each)}" for each in _literals(tree)] == []
    assert list(_unsourced(tree)) == []


def test_a_literal_and_a_constant_without_a_source_are_found() -> None:
    module = ast.parse(
        'SIZE = 3\n"""Nodes."""\n\ndef compose():\n    return {"a": SIZE, "b": ["c", f"d{SIZE}"]}\n'
    )
    assert [ast.unparse(each) for each in _literals(module)] == ["'c'", "f'd{SIZE}'"]
    assert list(_unsourced(module)) == ["SIZE"]
