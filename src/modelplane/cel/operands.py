"""Conditions: the operands of && in a selector, each as an expression of its own.

A device meets a selector if and only if it meets every condition, so a condition that it does not meet
explains the refusal.
"""

import re
from typing import Final

from modelplane.cel import source

_MOST: Final = 16
_SIGNS: Final = re.compile(r"&&|\|\||[()\[\]{}]|(?<![.\[])\?")
_DEVICE: Final = re.compile(r"\bdevice\b")
_PATH: Final = re.compile(r"""device(\s*\.\s*\w+(\s*\[[^\]]*\](\s*(\.\s*\??\s*\w+|\[[^\]]*\]))?)?)?""")


def conditions(expression: str) -> tuple[str, ...]:
    """Return the conditions of a selector that compiles; the selector itself if it joins none."""
    pieces = _split(expression)
    return pieces if len(pieces) <= _MOST else (expression.strip(),)


def _split(expression: str) -> tuple[str, ...]:
    shown = source.blank(expression)
    depth, start, pieces = 0, 0, []
    for sign in _SIGNS.finditer(shown):
        if sign[0] in "([{":
            depth += 1
        elif sign[0] in ")]}":
            depth -= 1
        elif depth == 0 and sign[0] == "&&":
            pieces.append(expression[start : sign.start()])
            start = sign.end()
        elif depth == 0:
            # What || and ? : join is one condition, whatever && is within.
            return (expression.strip(),)
    if not pieces:
        return _unwrapped(expression.strip())
    return tuple(text for piece in (*pieces, expression[start:]) for text in _split(piece.strip()))


def _unwrapped(expression: str) -> tuple[str, ...]:
    """Return the conditions of an expression, which may be in parentheses."""
    if not (expression.startswith("(") and expression.endswith(")")):
        return (expression,)
    depth = 0
    for sign in re.finditer(r"[()]", source.blank(expression)):
        depth += 1 if sign[0] == "(" else -1
        if depth == 0 and sign.end() < len(expression):
            return (expression,)
    inner = _split(expression[1:-1].strip())
    return inner if len(inner) > 1 else (expression,)


def reads(condition: str) -> frozenset[str]:
    """Return the parts of a device that a condition reads, such as ``device.driver``, as written there."""
    places = (found.start() for found in _DEVICE.finditer(source.blank(condition)))
    paths = (found for place in places if (found := _PATH.match(condition, place)))
    return frozenset("".join(found[0].split()) for found in paths)
