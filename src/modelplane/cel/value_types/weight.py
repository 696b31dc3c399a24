"""Weight of a value: the work of a call that traverses it.

A part that a value holds twice counts twice, because it is traversed twice.
"""

from typing import Any, Final

from modelplane.cel.bindings import Domain, Domains
from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types.optional import Optional
from modelplane.cel.value_types.semver import Semver

LONGEST_TEXT: Final = 100_000  # characters; what a selector writes itself has at most a tenth of that
_TEXT: Final = 64  # characters of a text that are gone through in one step
_CONTAINER: Final = 4
LIMIT: Final = 500_000  # steps of one evaluation, about 0.2 seconds; Kubernetes' cost counts other things
_NESTED: Final = frozenset({str, bytes, list, dict, Optional, Semver, Domain})


def of(value: Any) -> int:
    """Return how many steps it takes to go through a value; counting ends beyond the limit."""
    if type(value) in (str, bytes):
        return len(value) // _TEXT
    total, rest = 0, [value]
    while rest and total <= LIMIT:
        each = rest.pop()
        match each:
            case str() | bytes():
                total += len(each) // _TEXT
            case list():
                total += _CONTAINER + len(each)
                rest += [inner for inner in each if type(inner) in _NESTED]
            case dict():
                total += _CONTAINER + len(each)
                rest += [inner for inner in each.values() if type(inner) in _NESTED]
            case Domain():
                total += _CONTAINER + len(each.values)
            case Domains():
                total += _CONTAINER
                rest += each.domains.values()
            case Optional():
                total += _CONTAINER
                rest.append(each.value)
            case Semver():
                total += len(each.prerelease)
    return total


def bounded_text(length: int) -> None:
    """Check the length of a text about to be made. Raises EvaluationError."""
    if length > LONGEST_TEXT:
        raise EvaluationError(f"a text grows beyond {LONGEST_TEXT:,} characters")
