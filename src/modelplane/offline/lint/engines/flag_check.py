"""Warnings about the flags of an engine: unknown, removed or repeated ones, and values that it refuses."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.catalogue.flag_table import SWITCHES, Flag, Release, describe_history
from modelplane.offline.files.diagnostics import find_nearest, join_choices, quote
from modelplane.offline.lint.engines.engine_commands import EngineCommand, Given

_NUMBERS: Final = {
    "int": (r"[+-]?\d+", "a whole number"),
    "float": (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", "a number"),
    "size": (r"auto|[+-]?(\d+\.?\d*|\.\d+)[kKmMgGtT]?", "a number, such as 32768 or 32k"),
}
"""Accepted values of a kind, and their name in a sentence."""


def check(command: EngineCommand) -> Iterator[tuple[Given, str]]:
    """Yield each flag that the engine probably refuses or ignores, with the reason.

    With two releases, the version is between them: only what neither accepts is reported.
    """
    first: dict[Flag, Given] = {}
    for number, given in enumerate(command.given[0]):
        messages = [
            _problem(command, release, flags[number]) if number < len(flags) else None
            for release, flags in zip(command.releases, command.given, strict=True)
        ]
        if messages[0] and all(messages):
            yield given, messages[0]
        flag = command.releases[0].find_flag(given.name)
        if flag is None or command.engine.repeatable or flag.values or flag.names == ("--middleware",):
            continue
        before = first.setdefault(flag, given)
        if before is not given:
            yield given, f"{given.written} is given twice, and the last value counts: remove one"


def _problem(command: EngineCommand, release: Release, given: Given) -> str | None:
    """Return what is wrong with a flag of a release; None if the release accepts it."""
    flag = release.find_flag(given.name)
    engine = f"{command.engine.name} {release.version}"
    exact = command.version == release.version
    if flag is None:
        if not command.official or not given.name.startswith("--") or "$" in given.name:
            return None
        past = describe_history(release.table, given.name, release)
        near = find_nearest(given.name, release.flags)
        remedy = f": {past}" if past else f"; did you mean {near}?" if near else ": remove it"
        has = "has" if exact else "probably has"
        nearby = "" if exact else f", the nearest version that is known to {command.version or 'this image'},"
        return f"{engine}{nearby} {has} no flag {given.written}{remedy}"
    return _value_problem(engine, flag, given)


def _value_problem(engine: str, flag: Flag, given: Given) -> str | None:
    value = given.value
    if flag.kind in SWITCHES:
        return f"{given.written} of {engine} takes no value: write it alone" if value is not None else None
    if value is None:
        return None if flag.values in ("?", "*") else f"{given.written} of {engine} needs a value: add it"
    if "$" in value:
        return None
    pattern, what = _NUMBERS.get(flag.kind, ("", ""))
    if pattern and not re.fullmatch(rf"(None|{pattern})", value):
        return f"{given.written} of {engine} takes {what}, not {quote(value)}"
    if flag.choices and value not in flag.choices and value.lower() not in flag.choices:
        near = find_nearest(value, flag.choices)
        remedy = f"; did you mean {near}?" if near else f": write one of {join_choices(flag.choices)}"
        return f"{given.written} of {engine} does not take {quote(value)}{remedy}"
    return None
