"""Ending containers for which no pod is there any more.

The rule: the directory of a pod goes only after its containers are gone by the engine's own word. An
engine that is away is asked again later.
"""

import contextlib
import json
import logging
import math
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from modelplane.kubelet.records import AgentDirectory, Attempt, Exit
from modelplane.kubelet.runtime.containers import cli, container_arguments
from modelplane.kubelet.runtime.containers.cli import Engine, EngineError, NoSuchObject
from modelplane.kubelet.runtime.shim import timestamp

_ANSWER_S = 60.0
_KILLED = 137

_log = logging.getLogger(__name__)


def stop(attempts: Iterable[Attempt], grace_s: float) -> tuple[Attempt, ...]:
    """Block until the containers of attempts have ended and are removed; return those that are left.

    They are asked to end, and killed after ``grace_s`` seconds. Needs no event loop and no API server.
    """
    by_engine: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if container := attempt.container:
            by_engine[container.engine].append(attempt)
    left: list[Attempt] = []
    for name, held in by_engine.items():
        try:
            _remove(cli.engine_of(name), held, grace_s)
        except (EngineError, OSError) as error:
            _log.warning("cannot remove %d container(s) of %s: %s", len(held), name, error)
            left += held
    return tuple(left)


def _remove(engine: Engine, attempts: list[Attempt], grace_s: float) -> None:
    names = {attempt: container.name for attempt in attempts if (container := attempt.container)}
    unsettled = [attempt for attempt in attempts if not attempt.settled]
    # Some engines stop none of several where one of them is gone.
    present = [names[attempt] for attempt in unsettled if _state(engine, names[attempt])]
    if present:
        _do(engine, "stop", "-t", str(math.ceil(grace_s)), *present, within_s=grace_s)
    for attempt in unsettled:
        attempt.record_exit(_exit(_state(engine, names[attempt])))
        attempt.settle()
    for called in names.values():
        with contextlib.suppress(NoSuchObject):
            _do(engine, "rm", "--force", "--volumes", called)


def remove_networks(directory: AgentDirectory) -> None:
    """Remove the networks that an agent made, but for those that other containers are on."""
    for name in directory.networks():
        try:
            _do(cli.engine_of(name), "network", "rm", container_arguments.NETWORK)
        except NoSuchObject:
            pass
        except EngineError as error:
            _log.info("the network of pods stays with %s: %s", name, error)
            continue
        directory.forget_network(name)


def _state(engine: Engine, called: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = json.loads(_do(engine, "container", "inspect", called))[0]["State"]
    except NoSuchObject:
        return None
    return found


def _exit(state: Mapping[str, Any] | None) -> Exit:
    if state is None or state["FinishedAt"].startswith(cli.NEVER):
        return Exit(_KILLED, 0, timestamp(time.time_ns()), supervised=True)
    return Exit(int(state["ExitCode"]), 0, str(state["FinishedAt"]), supervised=True)


def _do(engine: Engine, *arguments: str, within_s: float = 0.0) -> str:
    try:
        done = subprocess.run(
            [engine.name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=cli.environment({}),
            timeout=within_s + _ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{engine.name} did not answer within {within_s + _ANSWER_S:g} s") from error
    except OSError as error:
        raise EngineError(f"cannot run {engine.name}: {error.strerror}") from error
    if done.returncode:
        raise cli.failure(engine.name, done.stderr)
    return done.stdout


async def sweep(engine: Engine, agent: str, is_known: Callable[[str], bool]) -> None:
    """Remove an agent's containers of pods that are not known, by uid; raise ``EngineError``.

    One may be made after the agent that asked for it was killed and its pod was forgotten.
    """
    label = f"label={container_arguments.AGENT_LABEL}={agent}"
    for found in (await engine.do("ps", "--all", "--quiet", "--no-trunc", "--filter", label)).split():
        with contextlib.suppress(NoSuchObject):
            labels = (await engine.inspect(found))["Config"]["Labels"]
            if not is_known(labels[container_arguments.UID_LABEL]):
                await engine.do("rm", "--force", "--volumes", found)
