"""Errors of a selector, before and during its evaluation on a device.

A SelectorError is a mistake of the author, with its position if it has one; an EvaluationError concerns one
device.
"""

from collections.abc import Iterable
from typing import Final, Self

_SHOWN: Final = 120  # characters of a text that a message quotes
_LONGEST: Final = 400  # characters of a reason


class SelectorError(ValueError):
    """A selector that does not compile.

    `expression` is its text; `line` and `column` count from 1, both 0 if the error has no position. The
    message is one line.
    """

    def __init__(self, expression: str, problem: str, line: int = 0, column: int = 0) -> None:
        problem = one_line(problem)
        place = f" at line {line}, column {column}" if line else ""
        shown = _printable(" ".join(expression.encode(errors="backslashreplace").decode().split()))
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
        super().__init__(f"cannot compile selector `{shown}`: {problem}{place}")
        self.expression = expression
        self.problem = problem
        self.line = line
        self.column = column

    @classmethod
    def at(cls, expression: str, problem: str, offset: int | None) -> Self:
        """Return the error at a position given in characters from the start."""
        if offset is None or not 0 <= offset <= len(expression):
            return cls(expression, problem)
        before = expression[:offset]
        return cls(expression, problem, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


class TooCostly(SelectorError):
    """Selectors that each compile, but cost too much together; the message says how much is allowed."""

    def __init__(self, problem: str) -> None:
        ValueError.__init__(self, problem)
        self.expression = ""
        self.problem = problem
        self.line = self.column = 0


class EvaluationError(Exception):
    """A selector that fails on one device; the message is the reason, without a trailing dot."""


def find_nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the known name that is most like another; None if none is; ``alike`` is 1 for the same."""
    import difflib  # noqa: PLC0415 - most names are known

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=alike)), None)


def one_line(text: str) -> str:
    """Return a text as one line of bounded length: a reason may quote a selector or a device."""
    if text.isprintable() and len(text) <= _LONGEST:
        return text
    text = _printable(text).strip()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _printable(text: str) -> str:
    """Replace characters that would move the caret or end the line: tabs, controls, line separators."""
    return "".join(character if character.isprintable() else " " for character in text)
