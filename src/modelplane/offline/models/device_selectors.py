"""Selectors for devices on which a model fits, by what drivers publish."""

from collections.abc import Iterator
from typing import Final

from modelplane.api.meta import Object
from modelplane.offline.models.nominal_memory import missed_cards
from modelplane.sizing.architecture import Quantization
from modelplane.sizing.hardware import Node, wanted_capability

_MIB: Final = 2**20
_GIB: Final = 2**30


def device_request(node: Node, count: int, needed_bytes: int, quantization: Quantization | None) -> Object:
    """Return a request for devices like those of a node, with at least the memory that each needs."""
    driver = node.driver
    selectors = [_memory(node, needed_bytes)]
    if capability := wanted_capability(node, quantization):
        version = ".".join(map(str, (*capability, 0)))
        selectors.append(
            f'device.attributes["{driver}"].cudaComputeCapability.compareTo(semver("{version}")) >= 0'
        )
    if count > 1 and node.type:  # partitions of a GPU cannot work together
        selectors.append(f'device.attributes["{driver}"].type == "{node.type}"')
    return {"name": "gpu", "count": count, "selectors": [{"cel": each} for each in selectors]}


def _memory(node: Node, needed_bytes: int) -> str:
    """Return the selector by driver and memory, in the largest unit that no card just misses."""
    written = [_selector(node.driver, each) for each in _amounts(node, needed_bytes)]
    return next((each for each in written if not missed_cards([each])), written[-1])


def _amounts(node: Node, needed_bytes: int) -> Iterator[str]:
    """Yield amounts of at least what is needed, and of no more than the device has."""
    for unit, size in (("Gi", _GIB), ("Mi", _MIB)):
        amount = -(-needed_bytes // size)
        if amount * size <= node.memory:
            yield f"{amount}{unit}"
    yield str(needed_bytes)


def _selector(driver: str, amount: str) -> str:
    memory = f'device.capacity["{driver}"].memory.compareTo(quantity("{amount}")) >= 0'
    return f'device.driver == "{driver}" && {memory}'
