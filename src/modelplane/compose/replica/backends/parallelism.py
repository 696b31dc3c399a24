"""Parallelism of an engine, as its flags say: over how many devices and nodes it divides a model."""

from typing import Any, Final, NamedTuple

from modelplane.api.fields.pods.containers import Container
from modelplane.compose.replica.engine_flags import flag, has

TENSOR: Final = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
PIPELINE: Final = ("--pipeline-parallel-size", "-pp", "--pp-size")
DATA: Final = ("--data-parallel-size", "-dp", "--dp-size")
_LOCAL: Final = ("--data-parallel-size-local", "-dpl")
_EXPERT: Final = ("--enable-expert-parallel", "-ep")
_MOST: Final = 4096
"""Largest degree that is read; a larger one counts as none."""


class Parallelism(NamedTuple):
    """Degrees of parallelism; 0 for one that no flag sets."""

    tensor: int = 0
    pipeline: int = 0
    data: int = 0
    data_local: int = 0
    expert: bool = False


def parallelism(container: Container) -> Parallelism:
    """Return the degrees that an engine's flags set (vLLM, SGLang)."""
    return Parallelism(
        _degree(container, TENSOR),
        _degree(container, PIPELINE),
        _degree(container, DATA),
        _degree(container, _LOCAL),
        has(container, *_EXPERT),
    )


def block(found: Parallelism, nodes: int) -> dict[str, Any]:
    """Return the ``parallelism`` of an LLMInferenceService for a gang of some nodes.

    KServe makes as many pods as data divided by local data, and has a preset for that. It takes the size from
    a pipeline too, but its charts have no preset for one, without which it makes nothing. The rest only fills
    arguments of presets, and the engine has its own.
    """
    local = max(found.data_local, 1)
    is_of_flags = found.data > 1 and found.data // local == nodes
    data, data_local = (found.data, local) if is_of_flags else (nodes, 1)
    return {
        **({"tensor": found.tensor} if found.tensor else {}),
        "data": data,
        "dataLocal": data_local,
        **({"expert": True} if found.expert else {}),
    }


def block_until_0_8(found: Parallelism) -> dict[str, Any]:
    """Return the same as versions up to 0.8 composed it."""
    divided = (
        {"data": found.data, "dataLocal": max(found.data_local, 1)}
        if found.data > 1
        else {"pipeline": max(found.pipeline, 1)}
    )
    return {
        **({"tensor": found.tensor} if found.tensor else {}),
        **divided,
        **({"expert": True} if found.expert else {}),
    }


def _degree(container: Container, names: tuple[str, ...]) -> int:
    given = flag(container, *names) or ""
    # Longer digits are no degree, and int() of very many would raise.
    if not (given.isascii() and given.isdigit() and len(given) <= len(str(_MOST))):
        return 0
    return int(given) if int(given) <= _MOST else 0
