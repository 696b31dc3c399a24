"""Counts of words that make English hard to read, per 1,000 words of prose."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

HABITS = {
    "says so": r"\b(?:say|says|said|saying)\s+(?:so|why|which|what|how)\b",
    "stay": r"\bstay(?:s|ed|ing)?\b",
    "has the": r"\b(?:has|have)\s+the\b",
    "clause as a noun": r"\bwhat\s+(?:is|are|it|the|they|was|has|a|an)\b",
    "its, their": r"\b(?:its|their)\b",
    "bookish": r"\b(?:anew|meanwhile|beside|the former|nevertheless)\b",
    "is no": r"\b(?:is|are)\s+no\b|\bof which\b|\bso many\b",
}
"""Habits by name, each with the words that betray it."""
READER = r"\b(?:you|your|yours)\b"
"""Words that speak to the reader."""

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_NOT_PROSE = (
    (re.compile(r"\A---\n.*?\n---\n", re.DOTALL), ""),
    (re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1[`~]*\s*$", re.DOTALL | re.MULTILINE), ""),
    (re.compile(r"<!--.*?-->", re.DOTALL), ""),
    (re.compile(r"`[^`]*`"), ""),
    (re.compile(r"\]\([^)]*\)"), "]"),
)
"""Front matter, blocks of code, comments, code, and addresses of links."""


def read_prose(text: str) -> str:
    """Return the prose of a page in Markdown."""
    for pattern, replacement in _NOT_PROSE:
        text = pattern.sub(replacement, text)
    return text


def measure(texts: Iterable[str]) -> dict[str, float]:
    """Return the counts of every habit and of words to the reader, per 1,000 words of all texts together."""
    words, counts = 0, Counter[str]()
    for text in texts:
        words += len(_WORD.findall(text))
        for name, pattern in {**HABITS, "you": READER}.items():
            counts[name] += len(re.findall(pattern, text, re.IGNORECASE))
    return {name: round(1000 * counts[name] / max(words, 1), 2) for name in (*HABITS, "you")}


def read_strings(source: Path) -> Iterator[str]:
    """Yield the texts of a program that people read: its sentences, but no docstrings.

    Those of classes in ``api`` and of commands in ``cli`` are read: they describe kinds, and are help.
    """
    for path in sorted(source.rglob("*.py")):
        shown = _SHOWN_DOCSTRINGS.get(path.relative_to(source).parts[0], ())
        tree = ast.parse(path.read_text())
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        help_texts = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, shown) and isinstance(node.body[0], ast.Expr)
            if isinstance(node, ast.ClassDef) or node.decorator_list
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node not in docstrings - help_texts:
                text = node.value if isinstance(node.value, str) else ""
                if len(_WORD.findall(text)) >= _FEWEST_WORDS:
                    yield re.sub(r"`[^`]*`", "", text)


_SHOWN_DOCSTRINGS: dict[str, tuple[type[ast.ClassDef | ast.FunctionDef], ...]] = {
    "api": (ast.ClassDef,),
    "cli": (ast.FunctionDef,),
}
_FEWEST_WORDS = 4
"""Of a sentence: shorter texts are names and parts."""
