"""Requests in progress when a pod is stopped, as the real engine treats them (tests/engines)."""

import pytest

from modelplane.api.fields.pods.containers import Container
from modelplane.compose.replica.backends.draining import Draining, draining

FINISHES = Draining()
GETS_TIME = Draining(arguments=("--shutdown-timeout=100",))
KEEPS_SERVING = Draining(pause_s=60)


@pytest.mark.parametrize(
    ("image", "command", "args", "expected"),
    [
        pytest.param("vllm/vllm-openai:v0.23.0", (), (), GETS_TIME, id="vLLM gets time"),
        pytest.param("vllm/vllm-openai:v0.18.0", (), (), GETS_TIME, id="its first version that takes it"),
        pytest.param("vllm/vllm-openai:v0.17.1", (), (), KEEPS_SERVING, id="a version that would not start"),
        pytest.param("vllm/vllm-openai:latest", (), (), KEEPS_SERVING, id="a version that no tag tells"),
        pytest.param("vllm/vllm-openai", (), (), KEEPS_SERVING, id="no tag"),
        pytest.param("vllm/vllm-openai@sha256:" + "0" * 64, (), (), KEEPS_SERVING, id="a digest"),
        pytest.param(
            "mirror.example.com:5000/hub/vllm-openai-rocm:v0.23.0-x@sha256:" + "0" * 64,
            (),
            (),
            GETS_TIME,
            id="another registry, vendor and a digest",
        ),
        pytest.param(
            "vllm/vllm-openai:v0.23.0",
            (),
            ("--shutdown-timeout", "30"),
            FINISHES,
            id="its author gives it time",
        ),
        pytest.param(
            "vllm/vllm-openai:v0.23.0",
            (),
            ("--shutdown-timeout=0",),
            KEEPS_SERVING,
            id="its author wants no time",
        ),
        pytest.param(
            "vllm/vllm-openai:v0.23.0",
            ("/bin/sh", "-c", "exec vllm serve /mnt/models --port=8000"),
            (),
            KEEPS_SERVING,
            id="a script is not changed",
        ),
        pytest.param(
            "vllm/vllm-openai:v0.23.0",
            ("/bin/sh", "-c", "exec vllm serve /mnt/models --shutdown-timeout 90"),
            (),
            FINISHES,
            id="a script that gives it time",
        ),
        pytest.param(
            "team/server:v3", ("/opt/vllm/bin/vllm", "serve", "m"), (), KEEPS_SERVING, id="an own image"
        ),
        pytest.param(
            "team/server:v3",
            ("python3", "-m", "vllm.entrypoints.openai.api_server"),
            (),
            KEEPS_SERVING,
            id="the module",
        ),
        pytest.param("lmsysorg/sglang:v0.5.10", ("sglang", "serve"), (), FINISHES, id="SGLang finishes"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server", (), (), FINISHES, id="llama.cpp finishes"),
        pytest.param("team/not-vllm:v0.23.0", (), (), FINISHES, id="another name"),
    ],
)
def test_an_engine_gets_what_it_needs_to_finish_its_requests(
    image: str, command: tuple[str, ...], args: tuple[str, ...], expected: Draining
) -> None:
    assert draining(Container(name="engine", image=image, command=command, args=args)) == expected
