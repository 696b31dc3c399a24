"""CEL's standard operators and string functions, done by the CEL library itself.

One rule: nothing that the library can do to plain values is written again here.

Each function becomes a one-call program over untyped variables, compiled at its first use. Values of
Kubernetes' own types never get here, so a function that is handed one has no overload for it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from modelplane.cel.checked import Unsigned
from modelplane.cel.errors import EvaluationError

_Plain: TypeAlias = Any  # a CEL value of a standard type, as the library converts it

_Program: TypeAlias = Callable[[Mapping[str, _Plain]], Any]

_OPERATORS: Final = {
    "_+_": "({} + {})",
    "_-_": "({} - {})",
    "_*_": "({} * {})",
    "_/_": "({} / {})",
    "_%_": "({} % {})",
    "-_": "(-{})",
    "_==_": "({} == {})",
    "_<_": "({} < {})",
    "_<=_": "({} <= {})",
    "_>_": "({} > {})",
    "_>=_": "({} >= {})",
    "_[_]": "{}[{}]",
    "@in": "({} in {})",
}
_NAMES: Final = "abcd"


def apply(function: str, arguments: tuple[_Plain, ...], *, member: bool) -> _Plain:
    """Apply a standard function. Raises EvaluationError."""
    unsigned = tuple(isinstance(argument, Unsigned) for argument in arguments)
    program = _program(function, unsigned, member)
    values = (argument.value if isinstance(argument, Unsigned) else argument for argument in arguments)
    return _result(program, dict(zip(_NAMES, values, strict=False)))


def is_plain(value: object) -> bool:
    """Tell whether the library can be handed the value."""
    if isinstance(value, list):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(is_plain(item) for pair in value.items() for item in pair)
    return value is None or isinstance(value, (str, bool, int, float, bytes, Unsigned))


@functools.lru_cache(maxsize=256)
def _program(
    function: str, unsigned: tuple[bool, ...], member: bool
) -> Callable[[Mapping[str, _Plain]], Any]:
    names = _NAMES[: len(unsigned)]
    if len(names) < len(unsigned):
        raise EvaluationError(f"{function} has too many arguments")
    environment = cel.NewEnv(
        variables={
            name: cel.Type("uint") if plain_unsigned else cel.Type.DYN
            for name, plain_unsigned in zip(names, unsigned, strict=True)
        },
        extensions=[ext_strings.ExtStrings(2)],
    )
    if function in _OPERATORS:
        text = _OPERATORS[function].format(*names)
    elif member:
        text = f"{names[0]}.{function}({', '.join(names[1:])})"
    else:
        text = f"{function}({', '.join(names)})"
    try:
        expression = environment.compile(text)
    except RuntimeError as error:
        raise EvaluationError(f"{function} is not available") from error
    return lambda values: expression.eval(data=values)


def _result(program: _Program, values: Mapping[str, _Plain]) -> _Plain:
    try:
        value = program(values)
    except (RuntimeError, UnicodeError) as error:
        raise EvaluationError(_reason(str(error))) from error
    kind = value.type().name()
    if kind == "ERROR":
        raise EvaluationError(_reason(str(value.value())))
    plain = value.plain_value()
    return Unsigned(plain) if kind == "UINT" else plain


def _reason(text: str) -> str:
    """Drop the status code that the library puts before its message."""
    code, colon, message = text.partition(": ")
    return message if colon and code.isupper() else text
