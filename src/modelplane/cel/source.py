"""Text of a selector: its limits, its functions, and its form for the compiler.

The compiler reads `device.driver` as one variable with a dot in its name, which has no presence test. So
`has(device.driver)` becomes `(!false)`, which is as true and costs as much. A replacement keeps the length,
so that every position in the text stays valid.
"""

import re
from typing import Final

from modelplane.cel import function_list
from modelplane.cel.errors import SelectorError

MAX_LENGTH: Final = 10_240  # bytes; k8s.io/api resource/v1, CELSelectorExpressionMaxLength
_DEEPEST: Final = 30  # brackets; the library's parser ends at 32 levels of any kind

_TEXTS: Final = re.compile(
    r"""
      [bB]?[rR][bB]?(?:\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|"[^"\n]*"?|'[^'\n]*'?)
    | [bB]?(?:\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?:\\.|[^\\])*?(?:'''|\Z))
    | [bB]?(?:"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    | //[^\n]*
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_PRESENCE: Final = re.compile(
    r"(?<![.\w])has\s*\(\s*device\s*\.\s*(?:attributes|capacity|driver)\s*\)", re.ASCII
)
_SIGNS: Final = re.compile(r"(?:\b(?P<loop>exists|all)\s*)?(?P<opens>[(\[{])|[)\]}]|,|`", re.ASCII)


def prepare(expression: str) -> str:
    """Return the text for the compiler. Raises SelectorError for a text that must not reach it."""
    try:
        size = len(expression.encode())
    except UnicodeEncodeError as error:
        raise SelectorError(expression, "it is not valid Unicode") from error
    if size > MAX_LENGTH:
        raise SelectorError(expression, f"it is longer than {MAX_LENGTH:,} bytes")
    if not expression.strip():
        raise SelectorError(expression, "it is empty")
    shown = blank(expression)
    for name, position in function_list.find_refused(shown):
        raise SelectorError.at(expression, function_list.explain(name), position)
    _check_signs(expression, shown)
    for presence in _PRESENCE.finditer(shown):
        lines = presence[0].count("\n")
        always = "(!false)".ljust(len(presence[0]) - lines) + "\n" * lines
        expression = expression[: presence.start()] + always + expression[presence.end() :]
    return expression


def _check_signs(expression: str, shown: str) -> None:
    """Bound the depth of brackets; refuse loops with two variables, and names in quotes."""
    outer: list[tuple[re.Match[str], int]] = []
    for sign in _SIGNS.finditer(shown):
        if sign[0] == "`":
            raise SelectorError.at(expression, "a name cannot be quoted with `", sign.start())
        if sign["opens"]:
            outer.append((sign, 0))
            if len(outer) > _DEEPEST:
                raise SelectorError(expression, "it is nested too deeply")
        elif outer and (last := outer.pop()) and sign[0] == ",":
            opening, commas = last
            if commas and (loop := opening["loop"]):
                problem = f"{loop} has one variable: write {loop}(x, condition)"
                raise SelectorError.at(expression, problem, opening.start())
            outer.append((opening, commas + 1))


def blank(expression: str) -> str:
    """Return an expression with blanks in place of texts and comments."""
    return _TEXTS.sub(lambda text: re.sub(r"[^\n]", " ", text[0]), expression)
