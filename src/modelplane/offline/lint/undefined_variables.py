"""References to variables that nothing sets."""

from collections.abc import Iterator

from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.replica.engine_variables import undefined
from modelplane.offline.lint.advice import Advice, walk_members


def check(deployment: ModelDeployment) -> Iterator[Advice]:
    """Warn of a reference to a variable that nothing sets: the program receives its characters."""
    for path, engine, member in walk_members(deployment):
        for variable in undefined(member.template.spec, member.role, engine.phase):
            yield Advice((*path, "template", "spec", *variable.path), variable.message)
