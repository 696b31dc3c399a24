import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.kubelet.engines import launchers
from modelplane.kubelet.engines.launchers import LAUNCHERS, Program

LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
VLLM = "vllm/vllm-openai:v0.11.0"
SGLANG = "lmsysorg/sglang:v0.5.3"
LLAMA_PROGRAM = (sys.executable, "-E", "-P", "-m", "modelplane.kubelet.engines.llama_cpp")
ADDRESS = "127.77.1.2"
HOST = ("--host", ADDRESS)
API_SERVER = ("python", "-m", "vllm.entrypoints.openai.api_server")
LAUNCH_SERVER = ("python", "-m", "sglang.launch_server")


def _everything(program: Program) -> Callable[[], Program]:
    return lambda: ("/bin/here", *program)


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every engine but llama.cpp, which is, look installed."""
    llama, *others = LAUNCHERS
    found = (
        replace(each, programs={program: _everything(program) for program in each.programs})
        for each in others
    )
    monkeypatch.setattr(launchers, "LAUNCHERS", (llama, *found))


def line(container: dict[str, Any], *, host_commands: bool = False) -> tuple[str, ...] | Rejected:
    words = (*container.get("command", ()), *container.get("args", ()))
    variables = {"PORT": "8000"} if "$(PORT)" in words else {}
    return launchers.build_command_line(container, variables, ADDRESS, host_commands=host_commands)


@pytest.mark.parametrize(
    ("image", "engine"),
    [
        pytest.param(LLAMA, "llama.cpp", id="llama.cpp's server"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server-cuda-b6000", "llama.cpp", id="its variant for a GPU"),
        pytest.param(VLLM, "vLLM", id="vLLM"),
        pytest.param("docker.io/vllm/vllm-openai", "vLLM", id="vLLM by its full name, without a tag"),
        pytest.param("vllm/vllm-openai@sha256:00", "vLLM", id="vLLM by digest"),
        pytest.param("vllm/vllm-openai-rocm:v1", None, id="another image whose name begins so"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:light", None, id="llama.cpp without a server"),
        pytest.param(SGLANG, "SGLang", id="SGLang"),
        pytest.param("lmsysorg/sglang-router:v1", None, id="another image of SGLang's"),
    ],
)
def test_an_image_has_an_engine(image: str, engine: str | None) -> None:
    assert launchers.find_engine(image) == engine


OTHER_REMEDIES = (
    "start a container runtime (docker, podman or nerdctl), or allow commands on this machine itself with "
    "--host-commands"
)
KNOWN = "(ghcr.io/ggml-org/llama.cpp:server*, lmsysorg/sglang, vllm/vllm-openai)"


@pytest.mark.parametrize(
    ("container", "remedies"),
    [
        pytest.param(
            {},
            "or start a container runtime (docker, podman or nerdctl)",
            id="one without a command",
        ),
        pytest.param(
            {"command": ["serve"]},
            OTHER_REMEDIES,
            id="one with a command, which this machine could execute",
        ),
    ],
)
def test_an_unknown_image_names_those_that_are_known(container: dict[str, Any], remedies: str) -> None:
    refused = launchers.check_image({"image": "example.com/engine:1"} | container, host_commands=False)
    assert isinstance(refused, Rejected)
    assert refused.reason == "NoLauncher"
    assert refused.message == (
        'cannot run image "example.com/engine:1" without a container runtime: no launcher '
        "supports it: use "
        f"a supported image {KNOWN}, {remedies}"
    )


@pytest.mark.parametrize(
    ("container", "message"),
    [
        pytest.param(
            {"image": LLAMA, "command": ["sh", "-c", "true"]},
            f'cannot run the command "sh" of image "{LLAMA}" without a container runtime: the '
            "command does not start "
            f"llama.cpp: begin the command with `llama-server`, {OTHER_REMEDIES}",
            id="a command of the machine's",
        ),
        pytest.param(
            {"image": SGLANG},
            f'cannot run image "{SGLANG}" without a container runtime: the command does not '
            "start SGLang: begin the command "
            f"with `python -m sglang.launch_server` or `sglang serve`, {OTHER_REMEDIES}",
            id="an image that starts nothing by itself",
        ),
        pytest.param(
            {"image": SGLANG, "command": ["python3"], "args": ["-m", "http.server"]},
            f'cannot run the command "python3" of image "{SGLANG}" without a container runtime: the '
            "command does not start SGLang: begin the command with `python -m "
            "sglang.launch_server` or `sglang "
            f"serve`, {OTHER_REMEDIES}",
            id="another module",
        ),
    ],
)
def test_a_command_that_is_not_the_engines_is_not_run(container: dict[str, Any], message: str) -> None:
    refused = line(container)
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.message) == ("NoLauncher", message)


@pytest.mark.parametrize(
    ("container", "command"),
    [
        pytest.param(
            {"image": LLAMA, "command": ["sh", "-c", "true"], "args": ["x"]},
            ("sh", "-c", "true", "x"),
            id="instead of an engine",
        ),
        pytest.param(
            {"image": "example.com/any:1", "command": ["serve"], "args": ["$(PORT)"]},
            ("serve", "8000"),
            id="of an image that no launcher knows",
        ),
        pytest.param({"image": SGLANG, "args": ["true"]}, ("true",), id="where the image executes arguments"),
        pytest.param(
            {"image": LLAMA, "args": ["-v"]},
            (*LLAMA_PROGRAM, "-v"),
            id="an engine with arguments alone stays an engine",
        ),
    ],
)
def test_plain_commands_run_where_they_are_allowed(
    container: dict[str, Any], command: tuple[str, ...]
) -> None:
    assert line(container, host_commands=True) == command


def test_an_engine_that_is_not_installed_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = (replace(each, programs=dict.fromkeys(each.programs, tuple)) for each in LAUNCHERS)
    monkeypatch.setattr(launchers, "LAUNCHERS", tuple(absent))
    refused = line({"image": VLLM})
    assert isinstance(refused, Rejected)
    assert refused.reason == "EngineNotInstalled"
    assert refused.message == (
        f'cannot run image "{VLLM}": vLLM is not installed on this machine: install it with: pip install vllm'
    )


@pytest.mark.parametrize(
    ("container", "command"),
    [
        pytest.param(
            {"image": LLAMA, "args": ["--port", "$(PORT)"]},
            (*LLAMA_PROGRAM, "--port", "8000"),
            id="arguments are expanded and passed on",
        ),
        pytest.param(
            {"image": LLAMA, "command": ["/app/llama-server"], "args": ["-v"]},
            (*LLAMA_PROGRAM, "-v"),
            id="the engine called by name",
        ),
        pytest.param(
            {"image": VLLM, "args": ["--model=m"]},
            ("/bin/here", *API_SERVER, "--model=m", *HOST),
            id="vLLM's model by a flag, and the pod's address",
        ),
        pytest.param(
            {"image": VLLM, "args": ["m", "--port", "1"]},
            ("/bin/here", "vllm", "serve", "m", "--port", "1", *HOST),
            id="vLLM's model by position",
        ),
        pytest.param(
            {"image": VLLM, "args": ["m", "--host=0.0.0.0"]},
            ("/bin/here", "vllm", "serve", "m", "--host=0.0.0.0", *HOST),
            id="every address is the pod's",
        ),
        pytest.param(
            {"image": VLLM, "args": ["m", *HOST]},
            ("/bin/here", "vllm", "serve", "m", *HOST),
            id="the pod's own address stays",
        ),
        pytest.param(
            {"image": VLLM, "command": ["vllm"], "args": ["serve", "m"]},
            ("/bin/here", "vllm", "serve", "m", *HOST),
            id="vLLM called by name, over command and arguments",
        ),
        pytest.param(
            {"image": VLLM, "command": ["python3", "-m", API_SERVER[2], "--model", "m"]},
            ("/bin/here", *API_SERVER, "--model", "m", *HOST),
            id="vLLM called by its module",
        ),
        pytest.param(
            {"image": SGLANG, "command": ["python3", "-m", "sglang.launch_server"], "args": ["--tp", "2"]},
            ("/bin/here", *LAUNCH_SERVER, "--tp", "2", *HOST),
            id="SGLang by its module, which listens on one address of its own",
        ),
        pytest.param(
            {"image": SGLANG, "args": ["/usr/bin/python3.12", *LAUNCH_SERVER[1:], "--host", "0.0.0.0"]},
            ("/bin/here", *LAUNCH_SERVER, "--host", "0.0.0.0", *HOST),
            id="SGLang as arguments of an image that executes them",
        ),
        pytest.param(
            {"image": SGLANG, "command": ["sglang", "serve", "--model-path", "m"]},
            ("/bin/here", "sglang", "serve", "--model-path", "m", *HOST),
            id="SGLang by its command",
        ),
    ],
)
@pytest.mark.usefixtures("_installed")
def test_the_command_line(container: dict[str, Any], command: tuple[str, ...]) -> None:
    assert line(container) == command
