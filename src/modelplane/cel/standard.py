"""Functions over plain values that the CEL library computes.

A function that behaves as in Kubernetes is not implemented again here.

Each function becomes a one-call program over variables, compiled at its first use. Its arguments are strings,
numbers, booleans, and lists of them; a value of another type never gets here.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types.numbers import Unsigned

_Plain: TypeAlias = Any  # a CEL value of a standard type, as the library converts it
_Program: TypeAlias = Callable[[Mapping[str, _Plain]], Any]

_NAMES: Final = "abcd"
_LIBRARIES: Final = """
extensions:
- name: cel.lib.ext.strings
  version: 2
- name: cel.lib.ext.regex
"""


def member(function: str) -> Callable[..., _Plain]:
    """Return the library's function that is called as `a.function(b)`."""

    def call(*arguments: _Plain) -> _Plain:
        names = _NAMES[: len(arguments)]
        return evaluate(f"{names[0]}.{function}({', '.join(names[1:])})", arguments)

    return call


def function(name: str) -> Callable[..., _Plain]:
    """Return the library's function that is called as `function(a, b)`."""
    return lambda *arguments: evaluate(f"{name}({', '.join(_NAMES[: len(arguments)])})", arguments)


def evaluate(text: str, arguments: tuple[_Plain, ...]) -> _Plain:
    """Evaluate an expression over `a`, `b`, `c` and `d`. Raises EvaluationError."""
    program = _program(text)
    return _result(
        program,
        {name: _handed(value) for name, value in zip(_NAMES, arguments, strict=False)},
    )


def _handed(value: _Plain) -> _Plain:
    if isinstance(value, list):
        return [_handed(item) for item in value]
    if isinstance(value, Unsigned):
        return int(value)
    if isinstance(value, (str, bool, int, float, bytes)):
        return value
    raise EvaluationError("a text is made of plain values only")


@functools.lru_cache(maxsize=64)
def _program(text: str) -> _Program:
    environment = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_LIBRARIES),
        variables=dict.fromkeys(_NAMES, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional()],
    )
    expression = environment.compile(text)
    return lambda values: expression.eval(data=values)


def _result(program: _Program, values: Mapping[str, _Plain]) -> _Plain:
    try:
        value = program(values)
    except (RuntimeError, UnicodeError, OverflowError) as error:
        raise EvaluationError(_reason(str(error))) from error
    if value.type().name() == "ERROR":
        raise EvaluationError(_reason(str(value.value())))
    return value.plain_value()


def _reason(text: str) -> str:
    """Drop the status code that the library puts before its message, and keep one line."""
    code, colon, message = text.partition(": ")
    kept = message if colon and code.replace("_", "").isupper() else text
    return " ".join(kept.split()) or "the library refuses it"
