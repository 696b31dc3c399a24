"""Kubernetes' semver library, version 1: `semver("9.0.0")` and the methods of versions.

Source: k8s.io/apiserver v0.35 `pkg/cel/library/semverlib.go`. A part beyond 2^63 - 1 becomes negative there.
"""

from typing import Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import Overload, overload, parses
from modelplane.cel.value_types import semver
from modelplane.cel.value_types.semver import Semver
from modelplane.cel.value_types.type_names import SEMVER


def _parsed(text: str, normalize: bool = False) -> Semver:
    try:
        return semver.parse(text, normalize=normalize)
    except semver.SemverError as error:
        raise EvaluationError(str(error)) from error


def _compare(left: Semver, right: Semver) -> int:
    return (left > right) - (left < right)


def _signed(part: int) -> int:
    return part - 2**64 if part >= 2**63 else part


OVERLOADS: Final[tuple[Overload, ...]] = (
    overload("semver", ("string",), _parsed, SEMVER, "string_to_semver"),
    overload("semver", ("string", "bool"), _parsed, SEMVER, "string_bool_to_semver"),
    overload("isSemver", ("string",), parses(_parsed), "bool", "is_semver_string"),
    overload("isSemver", ("string", "bool"), parses(_parsed), "bool", "is_semver_string_bool"),
    overload("major", (SEMVER,), lambda value: _signed(value.major), "int", "semver_major", member=True),
    overload("minor", (SEMVER,), lambda value: _signed(value.minor), "int", "semver_minor", member=True),
    overload("patch", (SEMVER,), lambda value: _signed(value.patch), "int", "semver_patch", member=True),
    overload("compareTo", (SEMVER, SEMVER), _compare, "int", "semver_compare_to", member=True),
    overload(
        "isGreaterThan", (SEMVER, SEMVER), lambda a, b: a > b, "bool", "semver_is_greater_than", member=True
    ),
    overload("isLessThan", (SEMVER, SEMVER), lambda a, b: a < b, "bool", "semver_is_less_than", member=True),
)
