"""CEL rules of a schema (``x-kubernetes-validations``), evaluated as an API server does.

One rule: the expressions and their messages come from the schema. Only the one function that Kubernetes adds
is defined here.

The compiler gets ``self`` without a type, so a rule that names a field that does not exist fails at
evaluation. The API server checks types, and rejects such a CRD.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from modelplane.api.schema.fields import QUALIFIED_NAME

_PREFIX_MAX: Final = 253
_NAME_MAX: Final = 63
_QUALIFIED_NAME: Final = re.compile(QUALIFIED_NAME)


def is_met(expression: str, value: Any) -> bool:
    """Return True if a rule holds for a value. One that cannot be evaluated does not, as on the server."""
    try:
        result = _program(expression).eval(data={"self": value})
    except (RuntimeError, ValueError, TypeError, OverflowError):
        return False
    return result.type().name() == "BOOL" and result.value() is True


@functools.cache
def list_fields(expression: str) -> tuple[tuple[str, ...], ...]:
    """Return the fields below ``self`` that a rule names; one empty path if it reads all of it."""
    paths = {
        tuple(field_path[1:].split(".")) if field_path else () for field_path in _SELF.findall(expression)
    }
    return tuple(sorted(paths))


_SELF: Final = re.compile(r"\bself\b((?:\.[A-Za-z_]\w*\b(?!\())*)")


@functools.cache
def _program(expression: str) -> Any:
    return _environment().compile(expression)


@functools.cache
def _environment() -> Any:
    text, findings = cel.Type.STRING, cel.Type.LIST
    # In Kubernetes a format is a value of its own and its findings are an optional list. Declared here as
    # the format's name and a list, because the library's optional values cannot be made in Python.
    functions = [
        _function(f"format.{name}", [], text, functools.partial(str, name), member=False) for name in _FORMATS
    ]
    functions.append(
        _function("validate", [text, text], findings, lambda name, value: _FORMATS[name](value), member=True)
    )
    functions.append(_function("hasValue", [findings], cel.Type.BOOL, bool, member=True))
    functions.append(_function("sum", [cel.Type.LIST], cel.Type.INT, sum, member=True))
    return cel.NewEnv(
        variables={"self": cel.Type.DYN}, extensions=[ext_strings.ExtStrings(2)], functions=functions
    )


def _function(
    name: str, parameters: list[Any], result: Any, meaning: Callable[..., Any], *, member: bool
) -> Any:
    overload = cel.Overload(name, return_type=result, parameters=parameters, is_member=member, impl=meaning)
    return cel.FunctionDecl(name, [overload])


def _qualified_name(value: str) -> list[str]:
    prefix, slash, name = value.rpartition("/")
    fits = len(prefix) <= _PREFIX_MAX and len(name) <= _NAME_MAX and bool(prefix) == bool(slash)
    return [] if fits and _QUALIFIED_NAME.fullmatch(value) else ["not a qualified name"]


_FORMATS: Final[Mapping[str, Any]] = {"qualifiedName": _qualified_name}
