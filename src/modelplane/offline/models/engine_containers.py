"""Containers of engines that serve a model with a split."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from modelplane.api.meta import Object
from modelplane.sizing.splits import Split


class Engine(StrEnum):
    """An engine that loads safetensors."""

    VLLM = "vllm"
    SGLANG = "sglang"


_AMD: Final = "gpu.amd.com"
_IMAGES: Final[Mapping[tuple[Engine, bool], str]] = {
    (Engine.VLLM, False): "vllm/vllm-openai:v0.23.0",
    (Engine.VLLM, True): "vllm/vllm-openai-rocm:v0.23.0",
    (Engine.SGLANG, False): "lmsysorg/sglang:v0.5.12.post1-cu129",
}
"""Images by engine, and whether the devices are AMD's."""
_HOST_IP: Final[Object] = {
    "name": "VLLM_HOST_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}


@dataclass(frozen=True, slots=True)
class Command:
    """The parts of an engine's command line that do not depend on the node."""

    engine: Engine
    image: str
    model: str
    """A path, or a repository of the hub."""
    revision: str
    served_name: str
    context: int
    quantization: str
    """Format to which the engine converts the weights; empty to serve them as they are."""
    token_secret: str
    """Name of the Secret with a token of the hub; empty without one."""


def choose_image(engine: Engine, driver: str) -> str:
    """Return the image of an engine for the devices of a driver; empty if none is known."""
    return _IMAGES.get((engine, driver == _AMD), "")


def build_standalone(command: Command, split: Split) -> Object:
    """Return the engine of one pod."""
    if command.engine is Engine.VLLM:
        return _container(command, args=[f"--model={command.model}", *_vllm(command, split)])
    program = ["python3", "-m", "sglang.launch_server"]
    return _container(
        command, command=program, args=[f"--model-path={command.model}", *_sglang(command, split)]
    )


def build_gang_member(command: Command, split: Split, *, is_leader: bool) -> Object:
    """Return vLLM in a pod of several, each with a stage of the pipeline."""
    rank, last = ("0", "--port=8000") if is_leader else ("$(MODELPLANE_RANK)", "--headless")
    words = [
        shlex.join(["exec", "vllm", "serve", command.model, *_vllm(command, split)]),
        f"--pipeline-parallel-size={split.pipeline}",
        "--distributed-executor-backend=mp",
        f"--nnodes={split.pipeline}",
        f"--node-rank={rank}",
        "--master-addr=$(MODELPLANE_LEADER_ADDRESS)",
        last,
    ]
    return _container(command, _HOST_IP, command=["/bin/sh", "-c", " ".join(words)])


def _vllm(command: Command, split: Split) -> Iterator[str]:
    yield f"--served-model-name={command.served_name}"
    yield f"--max-model-len={command.context}"
    if command.revision:
        yield f"--revision={command.revision}"
    if split.tensor > 1:
        yield f"--tensor-parallel-size={split.tensor}"
    if split.expert:
        yield "--enable-expert-parallel"
    if command.quantization:
        yield f"--quantization={command.quantization}"


def _sglang(command: Command, split: Split) -> Iterator[str]:
    yield f"--served-model-name={command.served_name}"
    yield f"--context-length={command.context}"
    if command.revision:
        yield f"--revision={command.revision}"
    if split.tensor > 1:
        yield f"--tp-size={split.tensor}"
    if split.expert:
        yield f"--ep-size={split.tensor}"
    if command.quantization:
        yield f"--quantization={command.quantization}"
    yield "--host=0.0.0.0"
    yield "--port=8000"


def _container(of: Command, /, *variables: Object, **fields: list[str]) -> Object:
    container = {"name": "engine", "image": of.image, **fields}
    env = [*variables, *_token(of)]
    return {**container, "env": env} if env else container


def _token(command: Command) -> Iterator[Object]:
    if command.token_secret:
        reference = {"name": command.token_secret, "key": "HF_TOKEN"}
        yield {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}
