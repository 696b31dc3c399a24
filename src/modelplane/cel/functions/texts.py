"""Functions over strings: CEL's own, its strings extension in version 2, Kubernetes' `find` and `findAll`.

Sources: cel-go v0.26 `ext/strings.go`; k8s.io/apiserver v0.35 `pkg/cel/library/regex.go`.

Regular expressions are RE2's, in the library as in Kubernetes: no backtracking, so no expression is slow.
The library finds by replacing: every match is put between two marks, which are then looked for.
"""

import itertools
import re
from typing import Any, Final

from modelplane.cel import standard
from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import ANY, Overload, overload
from modelplane.cel.value_types import weight

_S: Final = "string"
_ANY_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")  # RE2 has it, Go's dialect has not
_MARKS: Final = range(0xE000, 0xF8FF)  # characters for private use


def check_pattern(pattern: str) -> None:
    """Check a regular expression. Raises EvaluationError if it is not one."""
    _matches("", pattern)


def work_of_pattern(text: Any, pattern: Any) -> int:
    """Return the number of steps to match: a repeated part is compiled as often."""
    if not isinstance(text, str) or not isinstance(pattern, str):
        return 0
    size = len(pattern) + 1000 * (pattern.count("{") + pattern.count("\\p") + pattern.count("\\P"))
    return size * (1 + len(text) // 64)


def _matches(text: str, pattern: str) -> Any:
    if "\\C" in pattern and _ANY_BYTE.search(pattern):
        raise EvaluationError(f'"{pattern}" is not a regular expression: \\C is not known')
    try:
        return standard.evaluate("a.matches(b)", (text, pattern))
    except EvaluationError as error:
        reason = str(error).removeprefix("invalid regular expression: ")
        raise EvaluationError(f'"{pattern}" is not a regular expression: {reason}') from error


def _found(text: str, pattern: str, limit: int) -> list[str]:
    check_pattern(pattern)
    if "\\Q" in pattern and "\\E" not in pattern.rpartition("\\Q")[2]:
        pattern += "\\E"  # a quotation may be left open, but not before a bracket
    opening, closing = itertools.islice((mark for mark in map(chr, _MARKS) if mark not in text), 2)
    marked = standard.evaluate(
        "regex.replace(a, b, c, d)", (text, f"({pattern})", f"{opening}\\1{closing}", limit)
    )
    return [rest.partition(closing)[0] for rest in marked.split(opening)[1:]]


def _find(text: str, pattern: str) -> str:
    return "".join(_found(text, pattern, 1))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _found(text, pattern, max(limit, -1))


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise EvaluationError("a search in a string starts before it")
    return start if not part else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise EvaluationError("a search in a string starts before it")
    return start if not part else text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _join(items: list[Any], between: str = "") -> Any:
    weight.bounded_text(sum(len(text) + len(between) for text in items if isinstance(text, str)))
    return standard.evaluate("a.join(b)", (items, between))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old)
    weight.bounded_text(len(text) + len(new) * (found if limit < 0 else min(found, limit)))
    return text.replace(old, new, max(limit, -1))


def _split(text: str, between: str, limit: int = -1) -> Any:
    if not text and not between:
        return []
    return standard.evaluate("a.split(b, c)", (text, between, limit))


_CALLED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "charAt": ((_S, "int"),),
    "lowerAscii": ((_S,),),
    "substring": ((_S, "int"), (_S, "int", "int")),
    "trim": ((_S,),),
    "upperAscii": ((_S,),),
}

BY_LIBRARY: Final = frozenset({*_CALLED, "join", "matches", "find", "findAll", "split", "strings.quote"})

OVERLOADS: Final[tuple[Overload, ...]] = (
    overload("contains", (_S, _S), lambda text, part: part in text),
    overload("startsWith", (_S, _S), str.startswith),
    overload("endsWith", (_S, _S), str.endswith),
    overload("matches", (_S, _S), _matches),
    *(
        overload(name, parameters, call)
        for name, call in (("indexOf", _index_of), ("lastIndexOf", _last_index_of), ("split", _split))
        for parameters in ((_S, _S), (_S, _S, "int"))
    ),
    *(overload("join", parameters, _join) for parameters in (("list",), ("list", _S))),
    *(overload("replace", parameters, _replace) for parameters in ((_S, _S, _S), (_S, _S, _S, "int"))),
    overload("strings.quote", (_S,), standard.function("strings.quote")),
    *(
        overload(name, parameters, standard.member(name))
        for name, signatures in _CALLED.items()
        for parameters in signatures
    ),
    *(overload("size", (kind,), len) for kind in (_S, "bytes", f"list<{ANY}>")),
    overload("find", (_S, _S), _find, _S, "string_find_string", member=True),
    overload("findAll", (_S, _S), _find_all, "list<string>", "string_find_all_string", member=True),
    overload(
        "findAll", (_S, _S, "int"), _find_all, "list<string>", "string_find_all_string_int", member=True
    ),
)
