"""Which installed program stands in for which engine image.

A table: the images, and how the program is started. A launcher may add what a container's own
network would have given (its address to listen on); it never changes what the user wrote.
"""

import fnmatch
import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.local.agent.environment import expand
from modelplane.local.agent.refusals import Refusal

_WILDCARDS = {"", "0.0.0.0", "::"}  # noqa: S104 - recognised so that it is not bound


class CannotLaunch(Exception):
    """No program for an image, or the program is not installed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, message)


@dataclass(frozen=True, slots=True)
class Launcher:
    """One engine, as it is found and started on a host."""

    engine: str
    images: tuple[str, ...]
    """Patterns of image names, as ``fnmatch`` reads them."""
    programs: frozenset[str]
    """The names by which a pod's command may call the engine."""
    find: Callable[[], tuple[str, ...]]
    """Returns the start of the command line; empty where the engine is not installed."""
    remedy: str
    own_arguments: Callable[[Sequence[str], str], tuple[str, ...]]
    """Given the user's arguments and the pod's address, what to add after them."""


def _find_llama_cpp() -> tuple[str, ...]:
    if importlib.util.find_spec("xllamacpp") is None:
        return ()
    return (sys.executable, "-m", "modelplane.local.agent.llama_cpp")


def _find_vllm() -> tuple[str, ...]:
    if importlib.util.find_spec("vllm") is not None:
        return (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
    program = shutil.which("vllm")
    return (program, "serve") if program else ()


def _none(_arguments: Sequence[str], _address: str) -> tuple[str, ...]:
    return ()


def _vllm_host(arguments: Sequence[str], address: str) -> tuple[str, ...]:
    """Return ``--host ADDRESS`` where vLLM would listen on every address of the machine."""
    host = ""
    for place, argument in enumerate(arguments):
        if argument == "--host" and place + 1 < len(arguments):
            host = arguments[place + 1]
        elif argument.startswith("--host="):
            host = argument.removeprefix("--host=")
    return ("--host", address) if host in _WILDCARDS else ()


LAUNCHERS: tuple[Launcher, ...] = (
    Launcher(
        engine="llama.cpp",
        images=("ghcr.io/ggml-org/llama.cpp:server*",),
        programs=frozenset({"llama-server"}),
        find=_find_llama_cpp,
        remedy="install it with: pip install 'modelplane[local]'",
        own_arguments=_none,
    ),
    Launcher(
        engine="vLLM",
        images=("vllm/vllm-openai", "vllm/vllm-openai:*", "vllm/vllm-openai@*"),
        programs=frozenset({"vllm"}),
        find=_find_vllm,
        remedy="install it with: pip install vllm",
        own_arguments=_vllm_host,
    ),
)


def engine_of(image: str) -> str:
    """Return the name of the engine that stands in for an image; empty where there is none."""
    launcher = _find(image)
    return launcher.engine if launcher else ""


def _find(image: str) -> Launcher | None:
    name = image.removeprefix("docker.io/")
    for launcher in LAUNCHERS:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in launcher.images):
            return launcher
    return None


def launcher_of(image: str) -> Launcher:
    """Return the launcher of an image; raise ``CannotLaunch`` with the images that have one."""
    launcher = _find(image)
    if launcher is not None:
        return launcher
    known = ", ".join(sorted(launcher.images[0] for launcher in LAUNCHERS))
    raise CannotLaunch(
        "NoLauncher",
        f'cannot run image "{image}" without a container engine: no launcher knows it: use an image that '
        f"has one ({known}), or run it on a cluster whose nodes have a container engine",
    )


def command_line(
    container: Mapping[str, Any], environment: Mapping[str, str], address: str
) -> tuple[str, ...]:
    """Return what to execute for a container; raise ``CannotLaunch`` where its engine is not installed.

    The image's entry point is the launcher's program. A command of the pod's own replaces it, as
    Kubernetes says, and the engine's name in it means the same program.
    """
    launcher = launcher_of(container["image"])
    importlib.invalidate_caches()  # what was installed since the last look counts
    command = tuple(expand(part, environment) for part in container.get("command", ()))
    arguments = tuple(expand(part, environment) for part in container.get("args", ()))
    if command and Path(command[0]).name not in launcher.programs:
        return command + arguments
    program = launcher.find()
    if not program:
        raise CannotLaunch(
            "EngineNotInstalled",
            f'cannot run image "{container["image"]}": {launcher.engine} is not installed on this machine: '
            f"{launcher.remedy}",
        )
    rest = _after_program(program, command) + arguments
    return program + rest + launcher.own_arguments(rest, address)


def _after_program(program: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """Return what a pod's own command says after the engine's name, less what the program says already."""
    rest = tuple(command[1:])
    # `vllm serve MODEL` and `python -m ...api_server` are two names of one server; the first takes
    # the model by position, the second only as --model.
    if rest[:1] == ("serve",) and "serve" in program:
        return rest[1:]
    if rest[:1] == ("serve",) and "-m" in program:
        model = rest[1:2]
        return ("--model", *model, *rest[2:]) if model and not model[0].startswith("-") else rest[1:]
    return rest
