"""Preparation of a selector's text for the compiler.

A replacement keeps the length, so that every position in the text stays valid.

The compiler reads `device.driver` as one variable with a dot in its name, which has no presence test. So
`has(device.driver)` becomes a variable of its own, which is always true.
"""

import re
from typing import Final

from modelplane.cel.errors import SelectorError

PRESENT: Final = {f"device.__{field}__": f"device.{field}" for field in ("attributes", "capacity", "driver")}

_TOKENS: Final = re.compile(
    r"""
      [bB]?[rR][bB]?(?:\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|"[^"\n]*"?|'[^'\n]*'?)
    | [bB]?(?:\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?:\\.|[^\\])*?(?:'''|\Z))
    | [bB]?(?:"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    | //[^\n]*
    | \.\s*has\b
    | (?P<presence>\bhas\s*\(\s*device\s*\.\s*(?P<field>attributes|capacity|driver)\s*\))
    | (?P<reserved>\bdevice\s*\.\s*__\w+__)
    | (?P<quoted>`)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def prepared(expression: str) -> str:
    """Return the text for the compiler. Raises SelectorError for forms that only the compiler accepts."""
    if "has" not in expression and "`" not in expression and "__" not in expression:
        return expression
    return _TOKENS.sub(lambda token: _replaced(expression, token), expression)


def _replaced(expression: str, token: re.Match[str]) -> str:
    text = token[0]
    if token["quoted"]:
        raise SelectorError.at(expression, "a name cannot be quoted with `", token.start())
    if token["reserved"]:
        raise SelectorError.at(expression, f'unknown name "{text}"', token.start())
    if not token["presence"]:
        return text
    name = f"device.__{token['field']}__"
    lines = text.count("\n")
    return name + " " * (len(text) - len(name) - lines) + "\n" * lines


def without_texts(expression: str) -> str:
    """Return an expression with blanks in place of texts and comments."""
    return _TOKENS.sub(_blanked, expression)


def _blanked(token: re.Match[str]) -> str:
    written = token["presence"] or token["reserved"] or token["quoted"] or token[0].startswith(".")
    return token[0] if written else " " * len(token[0])
