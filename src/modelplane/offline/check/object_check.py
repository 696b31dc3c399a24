"""One object of our kinds, checked as an API server checks it.

The order is the server's: find unknown fields, apply defaults, check values against the schema, compare keys
of lists, and evaluate CEL rules. A rule that reads a field which is wrong already is not evaluated, because
its result would repeat that problem. Device selectors are compiled too, which the server leaves to the
scheduler.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelplane.api.kinds import Kind
from modelplane.api.meta import GROUP
from modelplane.api.names import check_reserved
from modelplane.api.schema.crd import build_schema
from modelplane.offline.check import structural
from modelplane.offline.check.schema_check import Validator, Violation, find_violations
from modelplane.offline.check.structural import MAX_ANNOTATIONS, Schema, build_metadata_schema
from modelplane.offline.files.diagnostics import Path, Severity, find_nearest, format_path, quote
from modelplane.offline.files.tree import Node
from modelplane.offline.lint.advice import find_advice

if TYPE_CHECKING:
    from modelplane.cel import SelectorError

_NEAR: Final = 2
"""Distance within which a misplaced field is searched before one of a similar name.

Farther away, only enclosing and enclosed objects are searched: a Secret's namespace is not a misplaced one
of the object.
"""


class Finding(msgspec.Struct, frozen=True):
    """One problem of an object."""

    path: Path
    message: str
    severity: Severity = Severity.ERROR
    at_key: bool = False
    """True if the name of the field is wrong."""
    selector: "SelectorError | None" = None
    """Finding of the compiler, if the value is a device selector."""


def check(node: Node, kind: Kind) -> Iterator[Finding]:
    """Yield all problems of an object."""
    validator = _validator(kind)
    completed = structural.complete(node, validator.schema)
    wrong: set[Path] = set()
    for path in completed.unknown:
        finding, meant = _unknown(kind, path, validator.schema, completed.value)
        wrong |= {finding.path, meant} - {()}
        yield finding
    for violation in find_violations(validator, completed.value, node):
        forgotten = violation.missing and violation.path in completed.empty
        if not forgotten and _follows(violation, wrong):
            continue
        wrong.add(violation.path)
        yield Finding(violation.path, _NO_VALUE if forgotten else violation.message, at_key=forgotten)
    yield from _repeated(completed.value, validator.schema, ())
    yield from _broken_rules(completed.value, validator.schema, (), frozenset(wrong))
    yield from _selectors(completed.value)
    yield from _too_many_annotations(completed.value)
    yield from _reserved_namespace(completed.value, kind)
    yield from (
        Finding(advice.path, advice.message, severity=Severity.WARNING, at_key=advice.at_key)
        for advice in find_advice(kind, completed.value)
        if not any(_overlap(advice.path, path) for path in wrong)
    )
    yield from (
        Finding(path, _EMPTY, severity=Severity.WARNING, at_key=True)
        for path in completed.empty
        if path[0] == "spec" and path not in wrong
    )


_EMPTY: Final = "is empty, and is treated as absent: remove the field, or indent the lines that belong to it"
_NO_VALUE: Final = "is required but empty: set a value, or indent the lines below that belong to this field"


def _reserved_namespace(value: dict[str, Any], kind: Kind) -> Iterator[Finding]:
    """Reject a tenant's object in a reserved namespace. Only warn of a stored one.

    The kinds that provision clusters are not tenants' objects.
    """
    metadata = value.get("metadata")
    if not (kind.namespaced and kind.group == GROUP and isinstance(metadata, dict)):
        return
    if rejected := check_reserved(str(metadata.get("namespace", ""))):
        severity = Severity.WARNING if metadata.get("uid") else Severity.ERROR
        yield Finding(("metadata", "namespace"), rejected.message, severity)


def _too_many_annotations(value: dict[str, Any]) -> Iterator[Finding]:
    metadata = value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict):
        return
    size = sum(len(key.encode()) + len(str(text).encode()) for key, text in annotations.items())
    if size > MAX_ANNOTATIONS:
        message = f"annotations take {size:,} bytes: the maximum is {MAX_ANNOTATIONS:,}"
        yield Finding(("metadata", "annotations"), message)


@functools.cache
def _validator(kind: Kind) -> Validator:
    written = build_schema(kind)
    properties = {**written["properties"], "metadata": build_metadata_schema(namespaced=kind.namespaced)}
    return Validator({**written, "properties": properties, "required": ["metadata", *written["required"]]})


def _unknown(kind: Kind, path: Path, whole: Schema, value: Any) -> tuple[Finding, Path]:
    """Return what to say about an unknown field, and the path of the field that was probably meant."""
    from modelplane.offline.check import renamed_fields  # noqa: PLC0415  few objects have one

    if replacement := renamed_fields.find_replacement(kind.name, path):
        message = f"unknown field, from an earlier version: {replacement.text}"
        return Finding(path, message, at_key=True), _own_positions(replacement.path, path)
    fields = sorted(structural.find_schema(whole, path[:-1]).get("properties", {}))
    near = find_nearest(str(path[-1]), fields)
    home = _home(whole, path, value)
    steps = structural.count_steps(path[:-1], home[:-1])
    beside = not structural.is_in_line(path[:-1], home[:-1])
    if beside and (steps > _NEAR or not _is_there(value, home[:-1])):
        home = ()
    same_word = near is not None and near.lower() == str(path[-1]).lower()
    if near and (same_word or not home or steps > _NEAR):
        return Finding(path, f"unknown field; did you mean {near}?", at_key=True), (*path[:-1], near)
    if home:
        place = format_path(_own_positions(home, path)[:-1])
        message = f"unknown field here; the field belongs to {place}: check the indentation"
        return Finding(path, message, at_key=True), home
    if len(fields) == 1:
        return Finding(path, f"unknown field: the only field here is {fields[0]}", at_key=True), ()
    among = f"the fields here are {', '.join(fields)}" if fields else "remove it"
    return Finding(path, f"unknown field: {among}", at_key=True), ()


def _home(whole: Schema, path: Path, value: Any) -> Path:
    """Return the path where a misplaced field belongs; empty if there is none, or several are possible.

    Of several that are equally near, the one within a field that the object has is meant.
    """
    homes = structural.find_homes(whole, path)
    if len(homes) > 1:
        homes = [home for home in homes if _is_there(value, _own_positions(home, path)[:-1])]
    return homes[0] if len(homes) == 1 else ()


def _is_there(value: Any, path: Path) -> bool:
    """Return True if an object has a field; if not, a field beside it is probably not meant."""
    for step in path:
        if isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
            continue
        if isinstance(step, int) or not isinstance(value, dict):
            break
        if step not in value:
            return False
        value = value[step]
    return True


def _own_positions(home: Path, path: Path) -> Path:
    """Return a path with the positions in lists of the misplaced field itself."""
    steps = list(home)
    for index, (written, step) in enumerate(zip(path, home, strict=False)):
        if isinstance(written, int) != isinstance(step, int) or (
            isinstance(written, str) and written != step
        ):
            break
        steps[index] = written
    return tuple(steps)


def _follows(violation: Violation, wrong: set[Path]) -> bool:
    """Return True if another problem explains a violation already.

    A field is not missing if another one was meant for it or belongs below it, and the form of a value is
    not unknown then.
    """
    path = violation.path
    if violation.missing or violation.formless:
        return any(other[: len(path)] == path for other in wrong)
    return path in wrong


def _repeated(value: Any, schema: Schema, path: Path) -> Iterator[Finding]:
    """Find items of a list that have the same key to Kubernetes."""
    if isinstance(value, dict):
        for name, child in value.items():
            if (child_schema := structural.find_child(schema, name)) is not None:
                yield from _repeated(child, child_schema, (*path, name))
        return
    if not isinstance(value, list) or "items" not in schema:
        return
    first: dict[str, int] = {}
    keys = schema.get("x-kubernetes-list-map-keys", ())
    unique = bool(keys) or schema.get("x-kubernetes-list-type") == "set"
    for index, item in enumerate(value):
        yield from _repeated(item, schema["items"], (*path, index))
        identity = [item.get(key) for key in keys] if keys and isinstance(item, dict) else item
        if not unique or (keys and not (isinstance(item, dict) and keys[0] in item)):
            continue
        before = first.setdefault(repr(identity), index)
        if before != index:
            names = " and ".join(f"{key} {quote(item.get(key))}" for key in keys) or quote(item)
            message = f"repeats the {names} of {format_path((*path, before))}: each value must be unique"
            yield Finding((*path, index), message)


def _broken_rules(value: Any, schema: Schema, path: Path, wrong: frozenset[Path]) -> Iterator[Finding]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"].startswith(_EVERY_KEY) and isinstance(value, dict):
            # Name each key that a rule rejects, also if its value or another key is wrong.
            for key in value:
                if not structural.is_met(rule["rule"], {key: ""}):
                    yield Finding(
                        (*path, key), f"{quote(key)} cannot be a key: {rule['message']}", at_key=True
                    )
        elif not _doubtful(rule["rule"], path, wrong) and not structural.is_met(rule["rule"], value):
            yield Finding(path, (f"{quote(value)}: " if isinstance(value, str) else "") + rule["message"])
    if isinstance(value, dict):
        children: Any = value.items()
    else:
        children = enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        if (child_schema := structural.find_child(schema, step)) is not None:
            yield from _broken_rules(child, child_schema, (*path, step), wrong)


_EVERY_KEY: Final = "self.all(key, "
"""Beginning of a rule that checks each key of a map."""


def _doubtful(rule: str, path: Path, wrong: frozenset[Path]) -> bool:
    """Return True if a rule reads a field that is wrong already, or one that contains such a field."""
    read = [(*path, *field_path) for field_path in structural.list_fields(rule)]
    return any(_overlap(field_path, bad) for field_path in read for bad in wrong)


def _overlap(one: Path, other: Path) -> bool:
    """Return True if one of two fields is the other, or part of it."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _selectors(value: dict[str, Any]) -> Iterator[Finding]:
    """Compile every device selector, and compare their total cost with the maximum."""
    expressions = dict(find_selectors(value, ()))
    if not expressions:
        return
    # Most objects have no selector, and the compiler is large.
    from modelplane import cel  # noqa: PLC0415  see above

    broken = [finding for path, expression in expressions.items() for finding in _compiled(expression, path)]
    yield from broken
    if not broken:
        try:
            cel.compile_all(expressions.values())
        except cel.TooCostly as error:
            yield Finding(("spec",), str(error))


def find_selectors(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every device selector with its path: the ``cel`` of an item of ``selectors``."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_selectors(item, (*path, index))
    elif isinstance(value, dict):
        for name, child in value.items():
            if name == "cel" and isinstance(child, str) and path[-2:-1] == ("selectors",):
                yield (*path, name), child
            else:
                yield from find_selectors(child, (*path, name))


def _compiled(expression: str, path: Path) -> Iterator[Finding]:
    from modelplane import cel  # noqa: PLC0415  see above
    from modelplane.api.values import quantity, semver  # noqa: PLC0415  see above

    try:
        cel.compile(expression)
    except cel.SelectorError as error:
        yield Finding(path, f"the selector does not compile: {error.problem}", selector=error)
        return
    for literal in _LITERAL.finditer(expression):
        parse: Callable[[str], object] = quantity.parse if literal["function"] == "quantity" else semver.parse
        try:
            parse(literal["text"])
        except (quantity.QuantityError, semver.SemverError) as error:
            fault = cel.SelectorError.at(expression, str(error), literal.start("text"))
            yield Finding(path, f"the selector fails on every device: {fault.problem}", selector=fault)


_LITERAL: Final = re.compile(
    r"""\b(?P<function>quantity|semver)\(\s*(?P<quote>["'])(?P<text>[^"'\\]*)(?P=quote)\s*\)"""
)
"""A text that is parsed for each device with the same result."""
