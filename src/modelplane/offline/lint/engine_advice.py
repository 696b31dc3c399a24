"""Flags that an engine refuses, or that contradict its pods: devices, nodes and port."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.fields.cluster.devices import DeviceRequest
from modelplane.api.fields.pods.engines import ENGINE_PORT, Phase, Role
from modelplane.api.model_deployment import Engine, Member, ModelDeployment
from modelplane.catalogue.flag_table import SWITCHES, Flag, Release, describe_history
from modelplane.compose.replica.engine_command_lines import DATA, PIPELINE, TENSOR
from modelplane.offline.files.diagnostics import find_nearest, join_choices, quote
from modelplane.offline.files.engine_commands import EngineCommand, Flags, Given, parse_commands
from modelplane.offline.lint.advice import Advice, walk_members

_NODES: Final = ("--nnodes", "-n")
_RANK: Final = ("--node-rank", "-r")
_ELSEWHERE: Final = (
    "--config",
    "--data-parallel-rank",
    "-dpn",
    "--data-parallel-external-lb",
    "-dpe",
    "--data-parallel-hybrid-lb",
    "-dph",
)
"""Flags with which the size of the engine is not in its own command line."""
_WITHIN_TENSOR: Final = ("--enable-dp-attention", "--attn-dp-size")
"""Flags with which SGLang divides the devices of its tensor parallelism for data parallelism."""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def check_shape(
    engine: Engine, member: Member, command: EngineCommand, flags: Flags
) -> Iterator[tuple[Given | None, str]]:
    """Yield each disagreement, with the flag that it is about; without one, it is about a missing flag."""
    if member.role is not Role.WORKER:
        yield from _port(engine, command, flags)
        yield from _host(command, flags)
    if command.engine.table != "llama.cpp":
        yield from _node_count(engine, flags)
        yield from _node_rank(engine, member, flags)
        if member.role is not Role.WORKER:
            yield from _devices(engine, command, flags)


def count_pods(engine: Engine) -> int:
    """Return the number of pods that an engine consists of."""
    return sum(member.pods for member in engine.members)


def _devices(engine: Engine, command: EngineCommand, flags: Flags) -> Iterator[tuple[Given | None, str]]:
    """Compare the devices that the engine divides its model over with those that its pods claim."""
    sizes = [flags.get_number(*names) for names in (TENSOR, PIPELINE)]
    within = command.engine.table == "sglang" and flags.find(*_WITHIN_TENSOR)
    sizes.append(1 if within else flags.get_number(*DATA))
    claimed = [_claimed(member) for member in engine.members]
    if flags.find(*_ELSEWHERE) or None in sizes or None in claimed:
        return
    tensor, pipeline, data = (size or 1 for size in sizes)
    used = tensor * pipeline * data
    workers = count_pods(engine) - 1
    available = sum(
        (count or 0) * (workers if member.role is Role.WORKER else 1)
        for member, count in zip(engine.members, claimed, strict=True)
    )
    if used == available or not available:
        return
    product = f"tensor {tensor} x pipeline {pipeline} x data {data} parallel"
    pods = f"{workers + 1} pods of the engine claim" if workers else "pod claims"
    about = flags.find(*TENSOR, *PIPELINE, *DATA)
    if used > available:
        yield about, f"{product} needs {used} devices, but the {pods} {available}: the engine cannot start"
    else:
        remedy = "raise a size, or claim fewer devices"
        yield about, f"{product} uses {used} of the {available} devices that the {pods}: {remedy}"


def _claimed(member: Member) -> int | None:
    """Return the number of accelerators that a pod claims; None if it is unclear which ones they are."""
    requests = member.node_selector.devices if member.node_selector else ()
    if len(requests) > 1:
        requests = tuple(request for request in requests if _is_accelerator(request))
        return sum(request.count for request in requests) if requests else None
    return sum(request.count for request in requests)


def _is_accelerator(request: DeviceRequest) -> bool:
    return any("gpu" in text for text in (request.name, *(selector.cel for selector in request.selectors)))


def _node_count(engine: Engine, flags: Flags) -> Iterator[tuple[Given | None, str]]:
    flag, have = flags.find(*_NODES), count_pods(engine)
    count = flags.get_number(*_NODES)
    if flag is not None and count is not None and count != have:
        pods = f"a gang of {have} pods" if have > 1 else "one pod, because there are no Workers"
        yield flag, f"{flag.written} says {count} nodes, but the engine is {pods}: make them equal"


def _node_rank(engine: Engine, member: Member, flags: Flags) -> Iterator[tuple[Given | None, str]]:
    flag, rank = flags.find(*_RANK), flags.get_number(*_RANK)
    if flag is None or rank is None:
        return
    worker = member.role is Role.WORKER
    if not worker and rank != 0:
        yield flag, f"{flag.written} must be 0 in the pod that serves, not {rank}"
    elif worker and (rank == 0 or count_pods(engine) > 2):
        remedy = "write $(MODELPLANE_RANK), which differs in each pod"
        yield flag, f"{flag.written} is {rank} in every Worker: {remedy}"


def _port(engine: Engine, command: EngineCommand, flags: Flags) -> Iterator[tuple[Given | None, str]]:
    """Compare the port of a pod with the one that probes and requests go to."""
    if engine.phase is Phase.DECODE:
        return
    flag = flags.find("--port")
    value = flag.value if flag else str(command.engine.port)
    if value is None or not value.isdigit() or int(value) == ENGINE_PORT:
        return
    listens = f"listens on {value}" if flag else f"listens on {value} by default"
    message = f"{command.engine.name} {listens}, but requests and probes go to {ENGINE_PORT}: "
    yield flag, message + f"set --port to {ENGINE_PORT}"


def _host(command: EngineCommand, flags: Flags) -> Iterator[tuple[Given | None, str]]:
    flag = flags.find("--host")
    value = flag.value if flag else None
    if value in _LOOPBACK or (flag is None and command.engine.loopback):
        where = quote(value) if value else "loopback only"
        yield (
            flag,
            (
                f"{command.engine.name} listens on {where}, so requests can't reach the engine: set --host "
                "to 0.0.0.0"
            ),
        )


_NUMBERS: Final = {
    "int": (r"[+-]?\d+", "a whole number"),
    "float": (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", "a number"),
    "size": (r"auto|[+-]?(\d+\.?\d*|\.\d+)[kKmMgGtT]?", "a number, such as 32768 or 32k"),
}
"""Accepted values of a kind, and their name in a sentence."""


def check_flags(command: EngineCommand) -> Iterator[tuple[Given, str]]:
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
        if first.setdefault(flag, given) is not given:
            yield given, f"{given.written} is set twice, and the last value applies: remove one"


def _problem(command: EngineCommand, release: Release, given: Given) -> str | None:
    """Return the fault of a flag of a release; None if the release accepts it."""
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
        nearby = "" if exact else f", the closest known version to {command.version or 'this image'},"
        return f"{engine}{nearby} {has} no flag {given.written}{remedy}"
    return _value_problem(engine, flag, given)


def _value_problem(engine: str, flag: Flag, given: Given) -> str | None:
    value = given.value
    if flag.kind in SWITCHES:
        return f"{given.written} of {engine} takes no value: remove the value" if value is not None else None
    if value is None:
        return None if flag.values in ("?", "*") else f"{given.written} of {engine} requires a value: add it"
    if "$" in value:
        return None
    pattern, what = _NUMBERS.get(flag.kind, ("", ""))
    if pattern and not re.fullmatch(rf"(None|{pattern})", value):
        return f"{given.written} of {engine} must be {what}, not {quote(value)}"
    if flag.choices and value not in flag.choices and value.lower() not in flag.choices:
        near = find_nearest(value, flag.choices)
        remedy = f"; did you mean {near}?" if near else f": write one of {join_choices(flag.choices)}"
        return f"{given.written} of {engine} does not support {quote(value)}{remedy}"
    return None


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
    yield from check_flags(command)
    named = dict(command.flags.given)
    if command.engine.table == "llama.cpp":
        for variable in member.template.spec.engine.env:
            if name := _LLAMA_CPP_VARIABLES.get(variable.name):
                named.setdefault(name, Given(variable.name, name, variable.value, ("env",)))
    yield from check_shape(engine, member, command, Flags(named))
