"""Removal of containers whose pods no longer exist.

The directory of a pod is removed only after the container runtime has confirmed that its containers are gone.
A runtime that does not answer is asked again later.
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

from modelplane.kubelet.records import NETWORK, AgentDirectory, Attempt, Exit
from modelplane.kubelet.runtime import container_arguments, container_cli
from modelplane.kubelet.runtime.container_cli import ContainerRuntime, ContainerRuntimeError, NoSuchObject
from modelplane.kubelet.runtime.shim import format_timestamp

_ANSWER_S = 60.0
_KILLED = 137

_log = logging.getLogger(__name__)


def stop(attempts: Iterable[Attempt], grace_s: float) -> tuple[Attempt, ...]:
    """Block until the containers of attempts have ended and are removed; return those that are left.

    They are asked to end, and killed after ``grace_s`` seconds. Needs no event loop and no API server.
    """
    by_runtime: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if container := attempt.container:
            by_runtime[container.engine].append(attempt)
    left: list[Attempt] = []
    for name, held in by_runtime.items():
        try:
            _remove(container_cli.find_runtime(name), held, grace_s)
        except (ContainerRuntimeError, OSError) as error:
            _log.warning("cannot remove %d container(s) of %s: %s", len(held), name, error)
            left += held
    return tuple(left)


def _remove(runtime: ContainerRuntime, attempts: list[Attempt], grace_s: float) -> None:
    # What holds a network goes last: until then, requests in progress need it, and Podman does not remove it.
    in_order = sorted(attempts, key=lambda attempt: attempt.holds_network)
    names = {attempt: container.name for attempt in in_order if (container := attempt.container)}
    unsettled = [attempt for attempt in in_order if not attempt.settled and not attempt.holds_network]
    # Some container runtimes stop none of several if one of them is gone.
    present = [names[attempt] for attempt in unsettled if _state(runtime, names[attempt])]
    if present:
        _do(runtime, "stop", "-t", str(math.ceil(grace_s)), *present, within_s=grace_s)
    for attempt in unsettled:
        attempt.record_exit(_exit(_state(runtime, names[attempt])))
        attempt.settle()
    for called in names.values():
        with contextlib.suppress(NoSuchObject):
            _do(runtime, "rm", "--force", "--volumes", called)


def remove_networks(directory: AgentDirectory) -> None:
    """Remove the networks that an agent made, but for those that other containers are on."""
    for name in directory.list_networks():
        try:
            _do(container_cli.find_runtime(name), "network", "rm", container_arguments.NETWORK)
        except NoSuchObject:
            pass
        except ContainerRuntimeError as error:
            _log.info("the network of pods stays with %s: %s", name, error)
            continue
        directory.forget_network(name)


def _state(runtime: ContainerRuntime, called: str) -> Mapping[str, Any] | None:
    try:
        state: Mapping[str, Any] = json.loads(_do(runtime, "container", "inspect", called))[0]["State"]
    except NoSuchObject:
        return None
    return state


def _exit(state: Mapping[str, Any] | None) -> Exit:
    if state is None or state["FinishedAt"].startswith(container_cli.NEVER):
        return Exit(_KILLED, 0, format_timestamp(time.time_ns()), supervised=True)
    return Exit(int(state["ExitCode"]), 0, str(state["FinishedAt"]), supervised=True)


def _do(runtime: ContainerRuntime, *arguments: str, within_s: float = 0.0) -> str:
    try:
        done = subprocess.run(
            [runtime.name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=container_cli.build_environment({}),
            timeout=within_s + _ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ContainerRuntimeError(
            f"{runtime.name} did not answer within {within_s + _ANSWER_S:g} s"
        ) from error
    except OSError as error:
        raise ContainerRuntimeError(f"cannot run {runtime.name}: {error.strerror}") from error
    if done.returncode:
        raise container_cli.describe_failure(runtime.name, done.stderr)
    return done.stdout


async def sweep(runtime: ContainerRuntime, agent: str, is_known: Callable[[str], bool]) -> None:
    """Remove an agent's containers of pods that are not known, by uid; raise ``ContainerRuntimeError``.

    One may be made after the agent that asked for it was killed and its pod was forgotten.
    """
    label = f"label={container_arguments.AGENT_LABEL}={agent}"
    unknown: dict[str, bool] = {}
    for container_id in (await runtime.do("ps", "--all", "--quiet", "--no-trunc", "--filter", label)).split():
        with contextlib.suppress(NoSuchObject):
            labels = (await runtime.inspect(container_id))["Config"]["Labels"]
            if not is_known(labels[container_arguments.UID_LABEL]):
                unknown[container_id] = labels[container_arguments.CONTAINER_LABEL] == NETWORK
    for container_id in sorted(unknown, key=lambda name: unknown[name]):
        with contextlib.suppress(NoSuchObject):
            await runtime.do("rm", "--force", "--volumes", container_id)
