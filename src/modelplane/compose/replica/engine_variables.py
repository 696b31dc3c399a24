"""Variables of engines: those that Modelplane sets, and references to variables that nothing sets.

Kubernetes replaces ``$(NAME)`` in a command line by the container's variable of that name. A reference to any
other name remains as it is written, and the program receives those characters.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from modelplane.api import labels
from modelplane.api.conditions.reasons import (
    ModelDeploymentCondition as Type,
    ModelDeploymentReason as Reason,
)
from modelplane.api.fields.pods.containers import CommonContainer, Container, PodSpec
from modelplane.api.fields.pods.engines import Phase, Role
from modelplane.api.fields.pods.variables import EnvVar
from modelplane.api.listing import listing
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.conditions import Condition, false, state_unless_new, true
from modelplane.compose.replica.backends import prefill_decode
from modelplane.compose.replica.engine_command_lines import find_script

SERVED_MODEL_NAME: Final = "MODELPLANE_SERVED_MODEL_NAME"
LEADER_ADDRESS: Final = "MODELPLANE_LEADER_ADDRESS"
RANK: Final = "MODELPLANE_RANK"

_OF_GANGS: Final = {LEADER_ADDRESS: "LWS_LEADER_ADDRESS", RANK: "LWS_WORKER_INDEX"}
"""Variables of a gang's pods, each with the one of LeaderWorkerSet that has the value."""
_OF_LEADER_WORKER_SET: Final = frozenset({*_OF_GANGS.values(), "LWS_GROUP_SIZE"})
_OF_KUBERNETES: Final = "KUBERNETES_"
"""Prefix of the variables that Kubernetes sets in every container."""

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)")
"""A reference, or the two characters that stand for one dollar sign."""
_IN_SCRIPT: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
"""A name that is taken for a variable in a shell's script, where ``$(hostname)`` runs a program."""

Path: TypeAlias = tuple[str | int, ...]


class Undefined(NamedTuple):
    """A reference to a variable that nothing sets."""

    path: Path
    """The word in the pod, such as ``containers[0].args[2]``."""
    container: str
    name: str

    @property
    def message(self) -> str:
        """The literal text that the program receives, and the remedies."""
        reference = f"$({self.name})"
        return (
            f"the variable in {reference} is not set, so the program receives these characters literally: "
            f"set the variable in env, or write ${reference} for the characters"
        )


def list_own_variables(replica: ModelReplica, container: CommonContainer, role: Role) -> list[dict[str, Any]]:
    """Return the variables that Modelplane sets in a container of a replica, before the author's.

    The served name is set where the container names it: other pods are as earlier versions wrote them.
    """
    values = (variable.value or "" for variable in container.env)
    is_named = any(SERVED_MODEL_NAME in text for text in (*container.command, *container.args, *values))
    found = [{"name": SERVED_MODEL_NAME, "value": served_name(replica)}] if is_named else []
    if role is not Role.STANDALONE:
        found += [{"name": name, "value": f"$({source})"} for name, source in _OF_GANGS.items()]
    return found


def served_name(replica: ModelReplica) -> str:
    """Return the name under which a replica's engine is asked to serve: namespace and deployment."""
    metadata = replica.metadata
    return f"{metadata.namespace}/{metadata.labels.get(labels.DEPLOYMENT, metadata.name)}"


def with_served_name(replica: ModelReplica, container: Container) -> Container:
    """Return the container of an engine with the variable of the served name."""
    variable = EnvVar(name=SERVED_MODEL_NAME, value=served_name(replica))
    return msgspec.structs.replace(container, env=(variable, *container.env))


def undefined(pod: PodSpec, role: Role, phase: Phase | None) -> Iterator[Undefined]:
    """Yield each reference in the containers of an engine's member that nothing defines."""
    for field, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for index, container in enumerate(containers):
            defined = {SERVED_MODEL_NAME}
            if container is pod.engine and role is not Role.STANDALONE:
                defined |= {*_OF_GANGS, *_OF_LEADER_WORKER_SET}
            if container is pod.engine and phase is not None:
                defined |= {
                    variable["name"]
                    for row in prefill_decode.CONNECTORS.values()
                    for variable in row.variables
                }
            for path, name in _undefined(container, defined):
                yield Undefined((field, index, *path), container.name, name)


def _undefined(container: CommonContainer, defined: set[str]) -> Iterator[tuple[Path, str]]:
    for number, variable in enumerate(container.env):
        yield from _in_word(variable.value or "", ("env", number, "value"), defined)
        defined.add(variable.name)
    words = [*container.command, *container.args]
    of_shell = find_script(words)
    for number, word in enumerate(words):
        place = number - len(container.command)
        path: Path = ("command", number) if place < 0 else ("args", place)
        yield from _in_word(word, path, defined, is_script=number == of_shell)


def _in_word(
    word: str, path: Path, defined: Collection[str], *, is_script: bool = False
) -> Iterator[tuple[Path, str]]:
    for name in dict.fromkeys(match[1] for match in _REFERENCE.finditer(word) if match[1]):
        if name in defined or name.startswith(_OF_KUBERNETES):
            continue
        if not is_script or _IN_SCRIPT.fullmatch(name):
            yield path, name


def conditions(deployment: ModelDeployment) -> tuple[Condition, ...]:
    """Return the condition that names undefined variables; none if there is none and never was one."""
    condition = true(Type.SETTINGS_SUPPORTED, Reason.POD_ACCEPTED, "every variable in a command line is set")
    found = [
        f'$({missing.name}) of container "{missing.container}"'
        for engine in deployment.replica_template().engines
        for member in engine.members
        for missing in undefined(member.template.spec, member.role, engine.phase)
    ]
    if found:
        message = (
            f"{listing(dict.fromkeys(found))} is not set, so the program receives these characters "
            "literally: set the variable in env, or write $$(NAME) for the characters"
        )
        condition = false(Type.SETTINGS_SUPPORTED, Reason.UNDEFINED_VARIABLE, message)
    return state_unless_new(condition, deployment.status)
