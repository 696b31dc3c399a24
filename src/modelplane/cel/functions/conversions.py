"""Conversions between CEL's types, and the parts of timestamps and durations.

A text is parsed as in Go (`strconv`); a value outside the range of its type is an error.

Source: cel-go v0.26 `common/types`.
"""

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any, Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import ANY, Overload, overload
from modelplane.cel.value_types import moments, numbers
from modelplane.cel.value_types.moments import Duration, Timestamp
from modelplane.cel.value_types.numbers import Unsigned

_INT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT: Final = re.compile(r"[0-9]+", re.ASCII)
_DIGITS: Final = "(?:[0-9]+(?:_[0-9]+)*)"
_HEXADECIMAL: Final = "(?:[0-9a-f]+(?:_[0-9a-f]+)*)"
_DOUBLE: Final = re.compile(
    rf"[+-]?(?:inf|infinity|nan|(?:{_DIGITS}\.?{_DIGITS}?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?"
    rf"|0x(?:{_HEXADECIMAL}\.?{_HEXADECIMAL}?|\.{_HEXADECIMAL})p[+-]?{_DIGITS})",
    re.ASCII | re.IGNORECASE,
)
_TRUTHS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
_LONGEST: Final = 400  # characters of a number


def _refused(text: str, kind: str) -> EvaluationError:
    return EvaluationError(f'"{text[:80]}" cannot become {kind}')


def _int_of_text(text: str) -> int:
    if not _INT.fullmatch(text) or len(text) > _LONGEST:
        raise _refused(text, "an int")
    return numbers.integer(int(text))


def _int_of_double(value: float) -> int:
    # Go refuses both ends of the range, because a double near them stands for several integers.
    if not numbers.MIN_INT < value < float(numbers.MAX_INT):
        raise EvaluationError("an integer overflows 64 bits")
    return math.trunc(value)


def _uint_of_text(text: str) -> Unsigned:
    if not _UINT.fullmatch(text) or len(text) > _LONGEST:
        raise _refused(text, "a uint")
    return numbers.unsigned(int(text))


def _uint_of_double(value: float) -> Unsigned:
    if not 0 <= value < float(numbers.MAX_UINT):
        raise EvaluationError("an unsigned integer overflows 64 bits or is negative")
    return Unsigned(math.trunc(value))


def _double_of_text(text: str) -> float:
    if not _DOUBLE.fullmatch(text) or len(text) > _LONGEST:
        raise _refused(text, "a double")
    plain = text.replace("_", "")
    try:
        value = float.fromhex(plain) if "x" in plain.lower() else float(plain)
    except (ValueError, OverflowError) as error:
        raise _refused(text, "a double") from error
    if math.isinf(value) and "inf" not in plain.lower():
        raise _refused(text, "a double")
    return value


def _bool_of_text(text: str) -> bool:
    if text not in _TRUTHS:
        raise _refused(text, "a bool")
    return _TRUTHS[text]


def text_of_double(value: float) -> str:
    """Write a double as Go's `strconv.FormatFloat(value, 'g', -1, 64)` does."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    shortest = next(text for places in range(18) if float(text := f"{value:.{places}e}") == value)
    mantissa, _, exponent = shortest.partition("e")
    if -4 <= int(exponent) < 6:
        return f"{value:.{max(len(mantissa.partition('.')[2]) - int(exponent), 0)}f}"
    return shortest


def text_of_bytes(value: bytes) -> str:
    """Decode UTF-8. Raises EvaluationError."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("bytes that are not UTF-8 cannot become a string") from error


_SECOND: Final = 10**9

# The part of a moment -> how it is read from a local time.
_PARTS: Final[dict[str, Callable[[dt.datetime], int]]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_UNITS: Final = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}


def _part(read: Callable[[dt.datetime], int]) -> Callable[..., int]:
    return lambda moment, zone="": read(moments.local(moment, zone))


def _same(value: Any) -> Any:
    return value


OVERLOADS: Final[tuple[Overload, ...]] = (
    *(overload(kind, (kind,), _same) for kind in ("int", "uint", "double", "bool", "bytes")),
    *(overload(kind, (kind,), _same) for kind in ("timestamp", "duration")),
    overload("dyn", (ANY,), _same),
    overload("int", ("string",), _int_of_text),
    overload("int", ("double",), _int_of_double),
    overload("int", ("uint",), lambda value: numbers.integer(int(value))),
    overload("int", ("timestamp",), lambda moment: moment.seconds),
    overload("int", ("duration",), lambda length: length.nanoseconds),
    overload("uint", ("string",), _uint_of_text),
    overload("uint", ("double",), _uint_of_double),
    overload("uint", ("int",), numbers.unsigned),
    overload("double", ("string",), _double_of_text),
    overload("double", ("int",), float),
    overload("double", ("uint",), float),
    overload("bool", ("string",), _bool_of_text),
    overload("bytes", ("string",), str.encode),
    overload("timestamp", ("string",), moments.timestamp),
    overload("timestamp", ("int",), moments.from_seconds),
    overload("duration", ("string",), moments.duration),
    *(
        overload(name, parameters, _part(read))
        for name, read in _PARTS.items()
        for parameters in (("timestamp",), ("timestamp", "string"))
    ),
    *(
        overload(name, ("duration",), lambda length, unit=unit: length.whole(unit))
        for name, unit in _UNITS.items()
    ),
)

# `string` is declared as a whole, because the compiler cannot add overloads for opaque types to its own.
TO_TEXT: Final[tuple[Overload, ...]] = (
    overload("string", ("string",), _same, "string", "string_to_string"),
    overload("string", ("int",), str, "string", "int64_to_string"),
    overload("string", ("uint",), str, "string", "uint64_to_string"),
    overload("string", ("double",), text_of_double, "string", "double_to_string"),
    overload("string", ("bool",), lambda value: str(value).lower(), "string", "bool_to_string"),
    overload("string", ("bytes",), text_of_bytes, "string", "bytes_to_string"),
    overload("string", ("timestamp",), Timestamp.__str__, "string", "timestamp_to_string"),
    overload("string", ("duration",), Duration.__str__, "string", "duration_to_string"),
)

CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
