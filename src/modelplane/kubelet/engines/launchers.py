"""Launchers: the installed programs that replace engine images when no container runtime runs them.

A launcher may add what a container's network would provide, the address to listen on; it never changes the
user's command. Variables and arguments that are not in its allow-list are refused. A command that no launcher
knows is a plain command of this machine. With host commands, both run.
"""

import fnmatch
import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.compose.cache.staging_program import PROGRAM, SOURCES_PROGRAM
from modelplane.kube.client import Client
from modelplane.kubelet import pod_refusals
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.engines import composed, launcher_allow_lists
from modelplane.kubelet.engines.allow_list import AllowList, Place
from modelplane.kubelet.engines.composed import Composed
from modelplane.kubelet.runtime.container_environment import expand

_WILDCARDS = {"", "0.0.0.0", "::"}  # noqa: S104 - recognised so that it is not bound
_PYTHON = re.compile(r"python[0-9.]*")
_START_RUNTIME = "start a container runtime (docker, podman or nerdctl)"
_ALLOWED = "allow commands on this machine itself with --host-commands"

Program = tuple[str, ...]
"""The words that a command line begins with."""

PYTHON: Program = (sys.executable, "-E", "-P")
"""The agent's own Python. It reads no variable of Python's, and no module of the working directory."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """The launcher of one engine on a host."""

    engine: str
    images: tuple[str, ...]
    """Patterns of image names, as ``fnmatch`` reads them."""
    programs: Mapping[Program, Callable[[], Program]]
    """The host program for each name that a pod may start the engine by; empty if it is not installed."""
    entry_point: Callable[[Sequence[str]], Program]
    """Returns the image's own entry point for some arguments; empty if the image only executes them."""
    allowed: AllowList
    """The variables and arguments that its process gets from a pod."""
    remedy: str = "run `pip install '.[local]'` in a checkout, or `pip install 'WHEEL[local]'`"
    own_arguments: Callable[[Sequence[str], str], tuple[str, ...]] = lambda _arguments, _address: ()
    """Returns the arguments to append, given the user's arguments and the pod's address."""
    reads_api: bool = False
    """True if its process gets a token of its pod's service account."""
    composed: Composed | None = None
    """The containers that it is for, if only Modelplane composes them."""


def _module(name: str, package: str) -> Callable[[], Program]:
    """Return a finder of a module of the agent's own Python, by its package."""
    return lambda: (*PYTHON, "-m", name) if importlib.util.find_spec(package) else ()


def _first_of(*finders: Callable[[], Program]) -> Callable[[], Program]:
    return lambda: next((command for finder in finders if (command := finder())), ())


def _command(name: str, *words: str) -> Callable[[], Program]:
    """Return a finder of a program beside the agent's own Python, or on its path."""
    beside = str(Path(sys.executable).parent)
    return lambda: (
        (program, *words) if (program := shutil.which(name, path=beside) or shutil.which(name)) else ()
    )


_LLAMA_SERVER = ("llama-server",)
_VLLM_SERVE = ("vllm", "serve")
_VLLM_API_SERVER = ("python", "-m", "vllm.entrypoints.openai.api_server")
_PICKER = ("epp",)
_ROUTING_SIDECAR = ("pd-sidecar",)


def _vllm_entry_point(arguments: Sequence[str]) -> Program:
    # The image's entry point was the module, with --model, and is the command, with a positional model.
    names_model = any(argument.partition("=")[0] == "--model" for argument in arguments)
    return _VLLM_API_SERVER if names_model else _VLLM_SERVE


def _host(arguments: Sequence[str], address: str) -> tuple[str, ...]:
    """Return ``--host ADDRESS`` where the engine would listen elsewhere than at an address it was given."""
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
        programs={_LLAMA_SERVER: _module("modelplane.kubelet.engines.llama_cpp", "xllamacpp")},
        entry_point=lambda _: _LLAMA_SERVER,
        allowed=launcher_allow_lists.LLAMA_CPP,
    ),
    Launcher(
        engine="vLLM",
        images=("vllm/vllm-openai", "vllm/vllm-openai:*", "vllm/vllm-openai@*"),
        programs={
            _VLLM_SERVE: _command("vllm", "serve"),
            _VLLM_API_SERVER: _first_of(
                _module("vllm.entrypoints.openai.api_server", "vllm"), _command("vllm", "serve")
            ),
        },
        entry_point=_vllm_entry_point,
        remedy="install it with: pip install vllm",
        own_arguments=_host,
        allowed=launcher_allow_lists.VLLM,
    ),
    Launcher(
        engine="SGLang",
        images=("lmsysorg/sglang", "lmsysorg/sglang:*", "lmsysorg/sglang@*"),
        programs={
            ("python", "-m", "sglang.launch_server"): _module("sglang.launch_server", "sglang"),
            ("sglang", "serve"): _command("sglang", "serve"),
        },
        # The image's entry point executes its arguments.
        entry_point=lambda _: (),
        remedy="install it with: pip install sglang",
        own_arguments=_host,
        allowed=launcher_allow_lists.SGLANG,
    ),
    Launcher(
        engine="the endpoint picker",
        images=("ghcr.io/llm-d/llm-d-router-endpoint-picker:*",),
        programs={_PICKER: _module("modelplane.kubelet.engines.endpoint_picker", "grpc")},
        entry_point=lambda _: _PICKER,
        allowed=launcher_allow_lists.ENDPOINT_PICKER,
        composed=composed.PICKER,
        reads_api=True,
    ),
    Launcher(
        engine="the routing sidecar",
        images=("ghcr.io/llm-d/llm-d-router-disagg-sidecar:*",),
        programs={_ROUTING_SIDECAR: _module("modelplane.kubelet.engines.routing_sidecar", "aiohttp")},
        entry_point=lambda _: _ROUTING_SIDECAR,
        allowed=launcher_allow_lists.ROUTING_SIDECAR,
        composed=composed.SIDECAR,
    ),
    Launcher(
        engine="the download of a ModelCache",
        images=("library/python:*", "python:*"),
        # Only Modelplane's own programs: with any Python program a pod could do everything.
        programs={
            ("python", "-c", PROGRAM): lambda: (
                (*PYTHON, "-c", PROGRAM) if importlib.util.find_spec("huggingface_hub") else ()
            ),
            ("python", "-c", SOURCES_PROGRAM): lambda: (*PYTHON, "-c", SOURCES_PROGRAM),
        },
        entry_point=lambda _: (),
        allowed=launcher_allow_lists.HYDRATION,
        composed=composed.CACHE,
    ),
)


def find_engine(image: str) -> str | None:
    """Return the engine whose launcher replaces an image; None if there is none."""
    launcher = find_launcher(image)
    return launcher.engine if launcher else None


async def check_author(
    client: Client, pod: Mapping[str, Any], container: Mapping[str, Any]
) -> Rejected | None:
    """Return why a container must not have its launcher, which is not for tenants; None if it may.

    Raises ``KubernetesError`` if the owners of the pod cannot be read.
    """
    launcher = find_launcher(container["image"])
    if launcher is None or launcher.composed is None:
        return None
    if await composed.is_composed(client, pod, container["name"], launcher.composed):
        return None
    return Rejected(
        WaitingReason.NO_LAUNCHER,
        detail=f'cannot run image "{container["image"]}" without a container runtime: '
        f"{launcher.engine} runs only in pods that Modelplane creates",
        remedy=f"use another image, {_START_RUNTIME}, or {_ALLOWED}",
    )


def find_launcher(image: str) -> Launcher | None:
    """Return the launcher that replaces an image; None if there is none."""
    name = image.removeprefix("docker.io/")
    matching = (
        launcher
        for launcher in LAUNCHERS
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in launcher.images)
    )
    return next(matching, None)


def check_image(container: Mapping[str, Any], *, host_commands: bool) -> Rejected | None:
    """Return why neither the container's image nor its command can be run here; None if one can."""
    image, command = container["image"], container.get("command")
    if find_launcher(image) is not None or (host_commands and command):
        return None
    images = ", ".join(sorted(launcher.images[0] for launcher in LAUNCHERS if not launcher.composed))
    last = f", {_START_RUNTIME}, or {_ALLOWED}" if command else f", or {_START_RUNTIME}"
    return Rejected(
        WaitingReason.NO_LAUNCHER,
        detail=f'cannot run image "{image}" without a container runtime: no launcher supports it',
        remedy=f"use a supported image ({images}){last}",
    )


def build_command_line(
    container: Mapping[str, Any], environment: Mapping[str, str], address: str, *, host_commands: bool
) -> tuple[str, ...] | Rejected:
    """Return the command to execute for a container; ``Rejected`` if there is none.

    As Kubernetes says, a command of the pod's own takes the place of the image's entry point.
    """
    if rejected := check_image(container, host_commands=host_commands):
        return rejected
    importlib.invalidate_caches()  # what was installed since the last look counts
    launcher = find_launcher(container["image"])
    command = tuple(expand(part, environment) for part in container.get("command", ()))
    words = command + tuple(expand(part, environment) for part in container.get("args", ()))
    if launcher is not None and not command:
        words = launcher.entry_point(words) + words
    called = _called(launcher, words)
    if launcher is not None and called:
        program = launcher.programs[called]()
        if not program:
            fault = (
                f'cannot run image "{container["image"]}": {launcher.engine} is not installed on this machine'
            )
            return Rejected(WaitingReason.ENGINE_NOT_INSTALLED, detail=fault, remedy=launcher.remedy)
        rest = words[len(called) :]
        if not host_commands and (
            rejected := _check_allowed(launcher, container, rest, environment, address)
        ):
            return rejected
        return program + rest + launcher.own_arguments(rest, address)
    if launcher is None or (words and host_commands):
        return words
    return _refuse_command(launcher, container["image"], words)


def select_variables(
    container: Mapping[str, Any], environment: Mapping[str, str], *, host_commands: bool
) -> Mapping[str, str]:
    """Return the variables of a pod that its process gets."""
    launcher = find_launcher(container["image"])
    return (
        environment if launcher is None or host_commands else launcher.allowed.select_variables(environment)
    )


def _check_allowed(
    launcher: Launcher,
    container: Mapping[str, Any],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    address: str,
) -> Rejected | None:
    mounts = map(pod_refusals.mount_path, pod_refusals.list_volume_mounts(container))
    written = (*container.get("command", ()), *container.get("args", ()))
    rejected = launcher.allowed.check(arguments, environment, written, Place(address, tuple(mounts)))
    if rejected is None:
        return None
    return Rejected(
        WaitingReason.UNSUPPORTED_POD,
        detail=f"cannot run {launcher.engine} as a process of this machine: {rejected.detail}",
        remedy=", ".join(filter(None, (rejected.remedy, _START_RUNTIME, f"or {_ALLOWED}"))),
    )


def _called(launcher: Launcher | None, words: Sequence[str]) -> Program:
    """Return the program of a launcher that a command line begins with; nothing where it is another's."""
    if launcher is None or not words:
        return ()
    name = Path(words[0]).name
    plain = ("python" if _PYTHON.fullmatch(name) else name, *words[1:])
    return next((program for program in launcher.programs if plain[: len(program)] == program), ())


def _refuse_command(launcher: Launcher, image: str, words: Sequence[str]) -> Rejected:
    programs = (
        "" if launcher.composed else " or ".join(f"`{' '.join(program)}`" for program in launcher.programs)
    )
    what = f'the command "{words[0]}" of image' if words else "image"
    fault = f'cannot run {what} "{image}" without a container runtime'
    remedy = f"{_START_RUNTIME}, or {_ALLOWED}"
    if programs:
        fault, remedy = (
            f"{fault}: the command does not start {launcher.engine}",
            f"begin the command with {programs}, {remedy}",
        )
    return Rejected(WaitingReason.NO_LAUNCHER, detail=fault, remedy=remedy)
