"""Warnings about command lines of engines: what their parsers refuse, and what contradicts their pods."""

from collections.abc import Iterator
from typing import Final

from modelplane.api.fields.pods.containers import Container
from modelplane.api.model_deployment import Engine, Member
from modelplane.catalogue.flag_files import flag_table
from modelplane.catalogue.flag_table import Release, nearest
from modelplane.offline.files.diagnostics import Path
from modelplane.offline.lint import flag_check, shape_check
from modelplane.offline.lint.engine_commands import EngineCommand, Given, engine_commands
from modelplane.offline.lint.shape_check import Flags

_LLAMA_CPP_VARIABLES: Final = {"LLAMA_ARG_HOST": "--host", "LLAMA_ARG_PORT": "--port"}
"""Variables that llama.cpp reads instead of flags."""


def warnings(engine: Engine, member: Member) -> Iterator[tuple[Path, str]]:
    """Yield the warnings about a member of an engine, each with the word of its container."""
    container = member.template.spec.engine
    found: dict[tuple[Path, str], None] = {}
    for command in engine_commands(container):
        for given, message in _of(engine, member, command):
            path = given.path if given else _own(container)
            found[(path, message)] = None
    yield from found


def flags(command: EngineCommand) -> Flags:
    """Return the flags of a command, as the nearest version that is known reads them."""
    return Flags(_named(command, nearest(flag_table(command.engine.table), command.version)[0]))


def _named(command: EngineCommand, release: Release) -> dict[str, Given]:
    named: dict[str, Given] = {}
    for given in command.given(release):
        flag = release.named(given.name)
        named |= dict.fromkeys(flag.names if flag else (given.name,), given)
    return named


def _own(container: Container) -> Path:
    return ("args",) if container.args else ("command",)


def _of(engine: Engine, member: Member, command: EngineCommand) -> Iterator[tuple[Given | None, str]]:
    releases = nearest(flag_table(command.engine.table), command.version)
    yield from flag_check.check(command, releases)
    named = _named(command, releases[0])
    if command.engine.table == "llama.cpp":
        for each in member.template.spec.engine.env:
            if name := _LLAMA_CPP_VARIABLES.get(each.name):
                named.setdefault(name, Given(each.name, name, each.value, ("env",)))
    yield from shape_check.check(engine, member, command, Flags(named))
