"""Flags that an engine refuses, or that contradict its pods."""

from collections.abc import Iterator
from typing import Final

from modelplane.api.model_deployment import Engine, Member, ModelDeployment
from modelplane.offline.lint.advice import Advice
from modelplane.offline.lint.deployment_parts import walk_members
from modelplane.offline.lint.engines import flag_check, shape_check
from modelplane.offline.lint.engines.engine_commands import EngineCommand, Flags, Given, parse_commands

_LLAMA_CPP_VARIABLES: Final = {"LLAMA_ARG_HOST": "--host", "LLAMA_ARG_PORT": "--port"}
"""Variables that llama.cpp reads instead of flags."""


def check(deployment: ModelDeployment) -> Iterator[Advice]:
    """Warn of flags that the engine refuses, or that contradict its pods."""
    for path, engine, member in walk_members(deployment):
        container = member.template.spec.engine
        whole = ("args",) if container.args else ("command",)
        advice: dict[Advice, None] = {}
        for command in parse_commands(container):
            for given, message in _check_command(engine, member, command):
                word = given.path if given else whole
                where = (*path, "template", "spec", "containers", 0, *word)
                advice[Advice(where, message, at_key=len(word) == 1)] = None
        yield from advice


def _check_command(
    engine: Engine, member: Member, command: EngineCommand
) -> Iterator[tuple[Given | None, str]]:
    yield from flag_check.check(command)
    named = dict(command.flags.given)
    if command.engine.table == "llama.cpp":
        for variable in member.template.spec.engine.env:
            if name := _LLAMA_CPP_VARIABLES.get(variable.name):
                named.setdefault(name, Given(variable.name, name, variable.value, ("env",)))
    yield from shape_check.check(engine, member, command, Flags(named))
