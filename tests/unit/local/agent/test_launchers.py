import sys
from dataclasses import replace
from typing import Any

import pytest

from modelplane.local.agent import launchers
from modelplane.local.agent.launchers import LAUNCHERS, CannotLaunch

LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
VLLM = "vllm/vllm-openai:v0.11.0"
LLAMA_PROGRAM = (sys.executable, "-m", "modelplane.local.agent.llama_cpp")
ADDRESS = "127.77.1.2"


@pytest.fixture
def _vllm_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    llama, vllm = LAUNCHERS
    monkeypatch.setattr(launchers, "LAUNCHERS", (llama, replace(vllm, find=lambda: ("/bin/vllm", "serve"))))


@pytest.mark.parametrize(
    ("image", "engine"),
    [
        pytest.param(LLAMA, "llama.cpp", id="llama.cpp's server"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server-cuda-b6000", "llama.cpp", id="its variant for a GPU"),
        pytest.param(VLLM, "vLLM", id="vLLM"),
        pytest.param("docker.io/vllm/vllm-openai", "vLLM", id="vLLM by its full name, without a tag"),
        pytest.param("vllm/vllm-openai@sha256:00", "vLLM", id="vLLM by digest"),
        pytest.param("vllm/vllm-openai-rocm:v1", "", id="another image whose name begins so"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:light", "", id="llama.cpp without a server"),
    ],
)
def test_an_image_has_an_engine(image: str, engine: str) -> None:
    assert launchers.engine_of(image) == engine


def test_an_unknown_image_names_those_that_are_known() -> None:
    with pytest.raises(CannotLaunch) as caught:
        launchers.launcher_of("example.com/engine:1")
    assert caught.value.refusal.reason == "NoLauncher"
    assert caught.value.refusal.message == (
        'cannot run image "example.com/engine:1" without a container engine: no launcher knows it: use an '
        "image that has one (ghcr.io/ggml-org/llama.cpp:server*, vllm/vllm-openai), or run it on a cluster "
        "whose nodes have a container engine"
    )


def test_an_engine_that_is_not_installed_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    llama, vllm = LAUNCHERS
    monkeypatch.setattr(launchers, "LAUNCHERS", (llama, replace(vllm, find=lambda: ())))
    with pytest.raises(CannotLaunch) as caught:
        launchers.command_line({"image": VLLM}, {}, ADDRESS)
    assert caught.value.refusal.reason == "EngineNotInstalled"
    assert str(caught.value) == (
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
            {"image": LLAMA, "command": ["sh", "-c", "true"], "args": ["x"]},
            ("sh", "-c", "true", "x"),
            id="a command of the pod's own",
        ),
        pytest.param(
            {"image": VLLM, "args": ["--model=m"]},
            ("/bin/vllm", "serve", "--model=m", "--host", ADDRESS),
            id="vLLM gets the pod's address",
        ),
        pytest.param(
            {"image": VLLM, "args": ["--host=0.0.0.0"]},
            ("/bin/vllm", "serve", "--host=0.0.0.0", "--host", ADDRESS),
            id="every address is the pod's",
        ),
        pytest.param(
            {"image": VLLM, "args": ["--host", "::1"]},
            ("/bin/vllm", "serve", "--host", "::1"),
            id="a chosen address stays",
        ),
        pytest.param(
            {"image": VLLM, "command": ["vllm", "serve", "m"]},
            ("/bin/vllm", "serve", "m", "--host", ADDRESS),
            id="vLLM called by name",
        ),
    ],
)
@pytest.mark.usefixtures("_vllm_installed")
def test_the_command_line(container: dict[str, Any], command: tuple[str, ...]) -> None:
    assert launchers.command_line(container, {"PORT": "8000"}, ADDRESS) == command


def test_the_module_takes_the_model_that_the_command_names_by_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llama, vllm = LAUNCHERS
    monkeypatch.setattr(launchers, "LAUNCHERS", (llama, replace(vllm, find=lambda: ("python", "-m", "api"))))
    container = {"image": VLLM, "command": ["vllm", "serve", "m", "--port", "1"]}
    assert launchers.command_line(container, {}, ADDRESS) == (
        *("python", "-m", "api", "--model", "m", "--port", "1", "--host", ADDRESS),
    )
