"""What can be wrong with a selector, before and while it is applied to a device.

One rule: a SelectorError is the author's to mend and shows where; an EvaluationError belongs to one device.
"""


class SelectorError(ValueError):
    """A selector that does not compile.

    `expression` is its text; `line` and `column` count from 1, both 0 where the fault has no place. The
    message is one line; `pointed()` adds the source line with a caret.
    """

    def __init__(self, expression: str, problem: str, line: int = 0, column: int = 0) -> None:
        place = f" at line {line}, column {column}" if line else ""
        super().__init__(f"cannot compile selector `{_shortened(expression)}`: {problem}{place}")
        self.expression = expression
        self.problem = problem
        self.line = line
        self.column = column

    def pointed(self) -> str:
        """Return the message, and below it the source line with a caret under the fault."""
        if not self.line:
            return str(self)
        source = self.expression.splitlines()[self.line - 1 : self.line] or [""]
        return f"{self}\n  {source[0].replace(chr(9), ' ')}\n  {' ' * (self.column - 1)}^"


class EvaluationError(Exception):
    """A selector that fails on one device; the message is the reason, without a trailing dot."""


def _shortened(expression: str, limit: int = 120) -> str:
    text = " ".join(expression.encode(errors="backslashreplace").decode().split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
