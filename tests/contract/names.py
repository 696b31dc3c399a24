"""Names in the code that other programs, objects and later versions rely on.

They are read from the syntax trees of a checkout: every string literal that looks like such a name, as a
sorted set. So a literal that moves to another module changes nothing here.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_METRIC = re.compile(r"modelplane_[a-z_]+")
_KEY = re.compile(r"[a-z0-9{][a-z0-9.{}-]*\.[a-z]{2,}/[A-Za-z0-9._{}/-]*")
"""A name below a domain: a label, an annotation, a finalizer, an API version."""
_OURS = re.compile(r"[^\s]*modelplane[^\s]*", re.IGNORECASE)
_COMPOSED = re.compile(r"(?=.*\{\})(?=.*[a-z])[a-z0-9{}]+([-.][a-z0-9{}]+)+")
"""A name that is put together, such as ``{}-kubeconfig``."""
_MODULE = re.compile(r"modelplane(\.(?!ai\b)[a-z_]+)+(:[a-z_]+)?|modelplane\.\{\}.*")


def names(source: Path) -> dict[str, list[str]]:
    """Return the names in a package's modules, by what they look like."""
    found: dict[str, set[str]] = {"metrics": set(), "keys": set(), "ours": set(), "composed": set()}
    paths: set[str] = set()
    for module in sorted(source.rglob("*.py")):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        paths |= set(_paths(tree))
        for text in _literals(tree):
            kind = _kind(text)
            if kind:
                found[kind].add(text)
    return {kind: sorted(texts) for kind, texts in (found | {"paths": paths}).items()}


def _kind(text: str) -> str:
    if _MODULE.fullmatch(text):
        return ""
    looks = {"metrics": _METRIC, "keys": _KEY, "ours": _OURS, "composed": _COMPOSED}
    return next((kind for kind, pattern in looks.items() if pattern.fullmatch(text)), "")


def _literals(tree: ast.Module) -> Iterator[str]:
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)  # a docstring
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            yield _written(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


def _paths(tree: ast.Module) -> Iterator[str]:
    """Yield the names of files and folders: what stands behind the ``/`` of a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            if isinstance(node.right, ast.JoinedStr):
                yield _written(node.right)
            elif isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
                yield node.right.value


def _written(node: ast.JoinedStr) -> str:
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
