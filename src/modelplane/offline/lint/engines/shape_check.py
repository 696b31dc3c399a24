"""Warnings about flags that disagree with the shape of the engine: devices, nodes and port."""

from collections.abc import Iterator
from typing import Final

from modelplane.api.fields.cluster.devices import DeviceRequest
from modelplane.api.fields.pods.engines import ENGINE_PORT, Phase, Role
from modelplane.api.model_deployment import Engine, Member
from modelplane.compose.replica.backends.kserve import DATA, PIPELINE, TENSOR
from modelplane.offline.files.diagnostics import quote
from modelplane.offline.lint.engines.engine_commands import EngineCommand, Flags, Given

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


def check(
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
        remedy = "raise a size, or claim fewer"
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
        pods = f"a gang of {have} pods" if have > 1 else "one pod, as it has no Worker"
        yield flag, f"{flag.written} says {count} nodes, but the engine is {pods}: make them equal"


def _node_rank(engine: Engine, member: Member, flags: Flags) -> Iterator[tuple[Given | None, str]]:
    flag, rank = flags.find(*_RANK), flags.get_number(*_RANK)
    if flag is None or rank is None:
        return
    worker = member.role is Role.WORKER
    if not worker and rank != 0:
        yield flag, f"{flag.written} of the pod that serves is 0, not {rank}"
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
            f"{command.engine.name} listens on {where}, where no request reaches it: set --host to 0.0.0.0",
        )
