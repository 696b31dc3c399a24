"""Functions that selectors may use from version 0.10 on, and those of an expression that are not listed."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.cel.source import without_texts

LISTED: Final = frozenset(
    {
        *("has", "size", "startsWith", "endsWith", "contains", "matches", "lowerAscii", "upperAscii"),
        *("exists", "all"),
        # Optional access.
        *("orValue", "or", "hasValue", "value"),
        # Quantities and versions.
        *("quantity", "isQuantity", "add", "sub", "sign", "isInteger", "asInteger", "asApproximateFloat"),
        *("semver", "isSemver", "major", "minor", "patch"),
        *("compareTo", "isGreaterThan", "isLessThan"),
    }
)

_NAMESPACES: Final = frozenset(
    {"base64", "cel", "cidr", "ip", "lists", "math", "optional", "regex", "sets", "strings"}
)
_CALL: Final = re.compile(r"(?:(?P<namespace>[A-Za-z_]\w*)\s*\.\s*)?(?P<name>[A-Za-z_]\w*)\s*\(", re.ASCII)
_NUMBER: Final = re.compile(r"(?<![\w.])\.?\d[\w.]*(?:(?<=[eE])[+-]\d+)?", re.ASCII)
_ARITHMETIC: Final = re.compile(r"[+*/%]|(?<=[\w)\]}])\s*-")
_IN: Final = "in"


def unlisted(expression: str) -> tuple[str, ...]:
    """Return the functions and arithmetic operators that are not listed, each once, in their order."""
    return tuple(dict.fromkeys(_unlisted(without_texts(expression))))


def _unlisted(text: str) -> Iterator[str]:
    for call in _CALL.finditer(text):
        name, namespace = call["name"], call["namespace"]
        if namespace in _NAMESPACES:
            yield f"{namespace}.{name}"
        elif name not in LISTED and name != _IN:
            yield name
    # A number may have a sign in its exponent; in its place, an operand.
    for operator in _ARITHMETIC.finditer(_NUMBER.sub("0", text)):
        yield operator[0].strip()
