"""`"%s has %d".format([name, count])`, of CEL's strings extension.

One rule: what Kubernetes writes in its own way (scientific notation, thousands, doubles inside lists, maps)
is an error here, because no selector should depend on it.

Source: cel-go v0.26 `ext/formatting.go`.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final

from modelplane.cel import values, weight
from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.conversions import text_of_bytes, text_of_double
from modelplane.cel.moments import Duration, Timestamp
from modelplane.cel.numbers import Unsigned

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]+))?([sdfeboxX]))|%", re.ASCII)
_PLACES: Final = 6
_MOST_PLACES: Final = 15
_GROUPED: Final = 1000  # from here on Kubernetes separates thousands

# The types that the API server accepts for a clause, where it knows them.
ACCEPTED: Final[dict[str, frozenset[str]]] = {
    "s": frozenset(
        {"bool", "bytes", "double", "duration", "dyn", "int", "list"}
        | {"map", "null", "string", "timestamp", "type", "uint"}
    ),
    "d": frozenset({"int", "uint", "dyn"}),
    "f": frozenset({"double", "dyn"}),
    "e": frozenset({"double", "dyn"}),
    "b": frozenset({"bool", "int", "uint", "dyn"}),
    "o": frozenset({"int", "uint", "dyn"}),
    "x": frozenset({"bytes", "int", "string", "uint", "dyn"}),
    "X": frozenset({"bytes", "int", "string", "uint", "dyn"}),
}


def clauses(template: str) -> list[str]:
    """Return the letters of the clauses, in order. Raises EvaluationError."""
    found = []
    for clause in _CLAUSE.finditer(template):
        if clause[3]:
            found.append(clause[3])
        elif not clause[1]:
            raise EvaluationError(f'"{template[clause.start() :][:5]}" is not a clause of a format')
    return found


def written(template: str, arguments: list[Any]) -> str:
    """Fill in a template. Raises EvaluationError."""
    needed = len(clauses(template))
    if needed != len(arguments):
        raise EvaluationError(f"a format of {needed} clauses is given {len(arguments)} values")
    rest = iter(arguments)
    length = len(template)

    def fill(clause: re.Match[str]) -> str:
        nonlocal length
        text = "%" if clause[1] else _WRITERS[clause[3]](next(rest), clause[2])
        length += len(text)
        weight.bounded_text(length)
        return text

    return _CLAUSE.sub(fill, template)


def _refused(clause: str, value: Any) -> EvaluationError:
    return EvaluationError(f"%{clause} cannot write this {values.kind(value)} as Kubernetes does")


def _text(value: Any, _: str | None = None) -> str:  # noqa: PLR0911  (one way of writing for each type)
    match value:
        case bool() | Duration() | Timestamp():
            return str(value).lower() if isinstance(value, bool) else str(value)
        case str():
            return value
        case None:
            return "null"
        case int():
            return str(int(value))
        case float():
            return text_of_double(value)
        case bytes():
            return text_of_bytes(value)
        case values.TypeName(name):
            return name
        case list():
            return f"[{', '.join(map(_element, value))}]"
    raise _refused("s", value)


def _element(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and not set('"\\') & set(value):
        return f'"{value}"'
    if isinstance(value, (str, float, bytes, Duration, Timestamp)):
        raise _refused("s", value)
    return _text(value)


def _whole(spec: str, *kinds: type) -> Callable[[Any, str | None], str]:
    def write(value: Any, _: str | None) -> str:
        if isinstance(value, (str, bytes)) and spec in "xX":
            text = (value if isinstance(value, bytes) else value.encode()).hex()
            return text.upper() if spec == "X" else text
        if type(value) in kinds:
            return format(int(value), spec)
        raise _refused(spec, value)

    return write


def _fixed(value: Any, places: str | None) -> str:
    count = int(places or _PLACES) if len(places or "") < 3 else _MOST_PLACES + 1
    if type(value) is not float or count > _MOST_PLACES or not math.isfinite(value) or abs(value) >= _GROUPED:
        raise _refused("f", value)
    return f"{value:.{count}f}"


def _scientific(value: Any, _: str | None) -> str:
    raise _refused("e", value)


_WRITERS: Final[dict[str, Callable[[Any, str | None], str]]] = {
    "s": _text,
    "d": _whole("d", int, Unsigned),
    "f": _fixed,
    "e": _scientific,
    "b": _whole("b", int, Unsigned, bool),
    "o": _whole("o", int, Unsigned),
    "x": _whole("x", int, Unsigned),
    "X": _whole("X", int, Unsigned),
}
