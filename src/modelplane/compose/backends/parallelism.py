"""Parallelism of an engine, as its flags say: over how many devices and nodes it divides a model."""

from typing import Any, Final, NamedTuple

from modelplane.api.containers import Container
from modelplane.compose.engine_flags import flag, has

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

    @property
    def nodes(self) -> int:
        """The number of nodes that KServe makes of it."""
        if self.data > 1:
            return max(self.data // max(self.data_local, 1), 1)
        return max(self.pipeline, 1)


def parallelism(container: Container) -> Parallelism:
    """Return the degrees that an engine's flags set (vLLM, SGLang)."""
    return Parallelism(
        _degree(container, TENSOR),
        _degree(container, PIPELINE),
        _degree(container, DATA),
        _degree(container, _LOCAL),
        has(container, *_EXPERT),
    )


def block(found: Parallelism) -> dict[str, Any]:
    """Return the ``parallelism`` of an LLMInferenceService, which has either data or pipeline parallelism."""
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
