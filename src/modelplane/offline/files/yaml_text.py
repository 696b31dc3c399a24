"""YAML as kubectl reads it: the meaning of an unquoted scalar, and objects that kubectl reads back unchanged.

One rule: the same as kubectl (go-yaml v2 by way of sigs.k8s.io/yaml), so YAML 1.1 with its ``yes`` and
``on``, and no times, no sexagesimal numbers and no infinities, which JSON cannot carry.
"""

import math
import re
from typing import Any, Final

import yaml

Scalar = str | int | float | bool | None

_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final[dict[str, Scalar]] = (
    dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False) | dict.fromkeys(_NULL)
)
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGERS: Final = (
    (10, re.compile(r"([-+]?)(0|[1-9][0-9]*)")),
    (8, re.compile(r"([-+]?)0[oO]?([0-7]+)")),
    (16, re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)")),
    (2, re.compile(r"([-+]?)0[bB]([01]+)")),
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LEAST, _MOST = -(2**63), 2**64 - 1
_LONGEST = 66  # a sign, 0b and 64 digits
_LARGEST_FLOAT_DIGITS = 400


class NotFinite(ValueError):
    """An infinity or "not a number", for which JSON has no form."""


def resolve(text: str) -> Scalar:
    """Return the value of a word without quotes. Raises ``NotFinite``."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise NotFinite(text)
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST:
        for base, form in _INTEGERS:
            match = form.fullmatch(digits)
            if match and _LEAST <= (value := int(match[1] + match[2], base)) <= _MOST:
                return value
    if len(digits) <= _LARGEST_FLOAT_DIGITS and _FLOAT.fullmatch(digits):
        return parse_number(float(digits), text)
    return text


def parse_number(value: float, otherwise: Scalar = None) -> Scalar:
    """Return a number in its JSON form: a whole one as an integer. One out of range is ``otherwise``."""
    if not math.isfinite(value):
        return otherwise
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # the base is chosen at run time
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  PyYAML's signature
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _means_more(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _means_more(text: str) -> bool:
    """Return True if a text without quotes has another meaning to kubectl, such as y or 1e3."""
    try:
        return not isinstance(resolve(text), str)
    except NotFinite:
        return True


_Dumper.add_representer(str, _text)


def to_yaml(item: Any) -> str:
    """Return an object as a YAML document."""
    return str(yaml.dump(item, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))
