"""Overload of a function: its declaration for the checker, and its implementation.

An overload is selected by the types of all arguments; without a match there is no such overload.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types.moments import Duration, Timestamp
from modelplane.cel.value_types.numbers import Unsigned
from modelplane.cel.value_types.optional import Optional
from modelplane.cel.value_types.quantity import Quantity
from modelplane.cel.value_types.semver import Semver
from modelplane.cel.value_types.type_names import QUANTITY, SEMVER

Implementation: TypeAlias = Callable[..., Any]

# A declared type -> the Python type of its values; a type that is not here may be anything.
TYPES: Final[dict[str, type]] = {
    "bool": bool,
    "bytes": bytes,
    "double": float,
    "duration": Duration,
    "int": int,
    "list": list,
    "optional": Optional,
    "string": str,
    "timestamp": Timestamp,
    "uint": Unsigned,
    QUANTITY: Quantity,
    SEMVER: Semver,
}

ANY: Final = "~A"


class Overload(msgspec.Struct, frozen=True):
    """A declaration and its meaning.

    Types are written as the CEL compiler reads them: `int`, `list<~A>`, `optional<list<string>>`. An overload
    without an identity is one that the compiler has already.
    """

    function: str
    parameters: tuple[str, ...]
    call: Implementation
    result: str = ""
    identity: str = ""
    member: bool = False
    kinds: tuple[type, ...] = ()

    def accepts(self, kinds: tuple[type, ...]) -> bool:
        """Return True if the overload takes arguments of these Python types."""
        return len(kinds) == len(self.parameters) and all(
            own is object or own is kind for own, kind in zip(self.kinds, kinds, strict=True)
        )


def parses(parse: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that is true for texts that can be parsed."""

    def can_parse(*arguments: object) -> bool:
        try:
            parse(*arguments)
        except (EvaluationError, ValueError):
            return False
        return True

    return can_parse


def overload(
    function: str,
    parameters: tuple[str, ...],
    call: Implementation,
    result: str = "",
    identity: str = "",
    *,
    member: bool = False,
) -> Overload:
    """Return an overload."""
    return Overload(
        function,
        parameters,
        call,
        result,
        identity,
        member,
        tuple(TYPES.get(parameter.partition("<")[0], object) for parameter in parameters),
    )
