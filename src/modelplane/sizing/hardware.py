"""Hardware: the nodes of InferenceClasses that can serve a model, with how many devices, at what cost."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from modelplane.api.fields.cluster.devices import Claim, Device, DevicePricing
from modelplane.api.inference_class import InferenceClass
from modelplane.api.rejected import Rejected
from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError
from modelplane.sizing.architecture import Quantization
from modelplane.sizing.memory import GIB, Load, Memory, Model, choose_batch, compute_memory
from modelplane.sizing.splits import PIPELINE_SIZES, Split, find_best_split, find_rejections

_NANO = 10**9
_MIG = "mig"
_CAPABILITIES = {"awq": (7, 5), "gptq": (6, 0), "compressed-tensors": (7, 5), "fp8": (7, 5), "mxfp4": (8, 0)}
"""Least CUDA compute capability that vLLM accepts, by quantization method."""
_NATIVE = {"fp8": (8, 9), "nvfp4": (10, 0)}
"""Capability from which a GPU computes in the format of the weights, instead of converting them."""
_BF16 = (8, 0)


class Node(NamedTuple):
    """A node of an InferenceClass, as far as models need it."""

    name: str
    """Name of the class."""
    device: str
    devices: int
    """Devices of a node."""
    memory: int
    """Bytes of each device."""
    capability: tuple[int, ...] = ()
    """CUDA compute capability; empty if it is not known."""
    is_partition: bool = False
    """A partition of a GPU, which cannot work together with others."""
    price: int | None = None
    """Of one device for an hour, in billionths of the currency; None if it is not known."""
    currency: str = ""
    driver: str = ""
    """DRA driver of the device."""
    type: str = ""
    """Its attribute ``type``, such as ``gpu``; empty if it is not known."""


class Served(NamedTuple):
    """A replica on nodes of a class, on the fewest devices."""

    node: Node
    split: Split
    memory: Memory

    @property
    def nodes(self) -> int:
        """The nodes of the replica."""
        return self.split.pipeline

    @property
    def concurrency(self) -> int:
        """The sequences that there is room for."""
        return self.memory.count_sequences(self.node.memory)

    @property
    def price(self) -> int | None:
        """Of its devices for an hour, in billionths of the currency."""
        return None if self.node.price is None else self.node.price * self.split.gpus


def describe_node(
    class_: InferenceClass, pricing: DevicePricing | None = None, *, spot: bool = False
) -> Node | None:
    """Return the node of a class, at other prices where some are given; None if no device has memory."""
    name, spec = class_.metadata.name, class_.spec
    pricing = pricing or spec.pricing
    for device in spec.devices:
        size = _memory(device)
        if not size:
            continue
        capability = device.attributes.get("cudaComputeCapability")
        text = capability.version if capability else None
        type_, product = device.attributes.get("type"), device.attributes.get("productName")
        return Node(
            name,
            (product.string if product else None) or device.name,
            device.count,
            size,
            tuple(map(int, re.split("[-+]", text)[0].split(".")[:2])) if text else (),
            type_ is not None and type_.string == _MIG,
            pricing.find_price_per_hour(device.name, spot=spot) if pricing else None,
            pricing.currency if pricing else "",
            device.driver,
            (type_.string if type_ else None) or "",
        )
    return None


def _memory(device: Device) -> int:
    """Return the bytes of memory of a device; 0 if it has none that pods claim."""
    declared = device.capacity.get("memory") or device.capacity.get(f"{device.driver}/memory")
    if declared is None or device.claim is not Claim.DRA:
        return 0
    try:
        return quantity.parse(declared.value).nano // _NANO
    except QuantityError:
        return 0


def plan_service(
    model: Model, node: Node, load: Load, most_nodes: int = PIPELINE_SIZES[-1]
) -> Served | Rejected:
    """Return how nodes of a class serve a model, on the fewest devices, or why they cannot."""
    if rejected := _check_capability(node, model.quantization):
        return rejected
    largest: tuple[Split, Memory] | None = None
    for split in _splits(model, node, most_nodes):
        needed = compute_memory(model, split, load, choose_batch(node.memory))
        if needed.gpu <= node.memory:
            return Served(node, split, needed)
        if largest is None or needed.gpu < largest[1].gpu:
            largest = (split, needed)
    if largest is None:
        return Rejected(detail="no supported split uses this number of devices")
    split, needed = largest
    memory = f"requires {needed.gpu / GIB:.1f} GiB per device, and the device has {node.memory / GIB:.1f} GiB"
    return Rejected(subject=str(split), detail=memory)


def _splits(model: Model, node: Node, most_nodes: int) -> Iterator[Split]:
    """Yield the legal splits, those on fewer devices first: within a node, then over several nodes."""
    sizes = (1,) if node.is_partition else range(1, node.devices + 1)
    pairs = [(size, 1) for size in sizes]
    if not node.is_partition:
        pairs += [(node.devices, nodes) for nodes in PIPELINE_SIZES[1:] if nodes <= most_nodes]
    for tensor, pipeline in pairs:
        split = find_best_split(model.architecture, model.quantization, tensor, pipeline)
        if not find_rejections(model.architecture, model.quantization, split):
            yield split


def choose_capability(node: Node, quantization: Quantization | None) -> tuple[int, ...]:
    """Return the compute capability to ask for, so that other GPUs serve as this one does.

    It is that of the weights' format if this GPU has it, else the least that vLLM accepts; empty if that of
    this GPU is not known.
    """
    native = _NATIVE.get(quantization.method, ()) if quantization else ()
    least = _least_capability(quantization)
    if not node.capability:
        return ()
    return native if native and node.capability >= native else least


def _least_capability(quantization: Quantization | None) -> tuple[int, ...]:
    return _CAPABILITIES.get(quantization.method, ()) if quantization else _BF16


def _check_capability(node: Node, quantization: Quantization | None) -> Rejected | None:
    """Return the reason if a GPU lacks what the weights need; None if it does not, or is not known."""
    least = _least_capability(quantization)
    if not node.capability or node.capability >= least:
        return None
    what = quantization.method if quantization else "BF16"
    needed, has = (".".join(map(str, capability)) for capability in (least, node.capability))
    return Rejected(subject=what, detail=f"requires compute capability {needed}, and the device has {has}")
