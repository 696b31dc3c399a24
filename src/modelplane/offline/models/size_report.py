"""The size of a model: the document of ``modelplane size``, and its figures."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from modelplane.api import money
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model as MetaModel, Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import decode_as
from modelplane.offline.files.report_documents import Output, Report
from modelplane.sizing.architecture import Architecture, LayerKind
from modelplane.sizing.hardware import Node, Served, describe_node, plan_service
from modelplane.sizing.loaded_weights import MAX_BYTES, Role
from modelplane.sizing.memory import (
    BATCHES,
    GIB,
    Batch,
    Load,
    Memory,
    Model,
    compute_memory,
    compute_sequence_bytes,
    compute_state_bytes,
    compute_token_bytes,
)
from modelplane.sizing.splits import PIPELINE_SIZES, TENSOR_SIZES, Split, find_best_split, find_rejections
from modelplane.user_error import UserError

M = TypeVar("M", bound=MetaModel)


class Part(Output, frozen=True, kw_only=True):
    """A part of the model."""

    name: str
    parameters: int
    bytes: int


class Cache(Output, frozen=True, kw_only=True):
    """The KV cache of the whole model, undivided."""

    full_layers: int
    sliding_layers: int
    state_layers: int
    layer_bytes_per_token: int
    """Bytes of one token in one layer with attention."""
    state_bytes_per_sequence: int
    sequence_bytes: int
    """Bytes of one sequence of the context."""
    heads: int
    """KV heads; 0 with a latent (MLA)."""
    head_dim: int
    """Size of a head, or of the latent."""
    element_bytes: int


class SplitSize(Output, frozen=True, kw_only=True):
    """Memory that each GPU of a split needs, or the reasons for which engines refuse the split."""

    name: str
    tensor: int
    pipeline: int
    expert: bool
    weights_bytes: int
    cache_bytes: int
    overhead_bytes: int
    gpu_bytes: int
    """Memory of the smallest GPU on which this is within the engine's budget."""
    node_bytes: int
    """The same for the GPUs of one stage, which are on one node."""
    rejections: tuple[str, ...]
    """Empty if the split is legal."""


class HardwareSize(Output, frozen=True, kw_only=True):
    """A replica of the model on nodes of a class, or of a pool of a cluster."""

    inference_class: str
    cluster: str
    """Empty for a class."""
    pool: str
    device: str
    device_bytes: int
    devices: int
    """Devices of one replica; 0 if it cannot be served."""
    nodes: int
    split: str
    needed_bytes: int
    """Memory that each device needs."""
    concurrency: int
    """Sequences of the context that there is room for."""
    currency: str
    cost_per_hour: str
    """Cost of the devices of one replica; empty if a price is not known."""
    reason: str
    """Reason for which it cannot be served; empty if it can."""


class Size(Report, frozen=True, kw_only=True):
    """The document of ``modelplane size -o json``."""

    kind: Literal["Size"] = "Size"
    model: str
    model_type: str
    quantization: str
    """Method of the checkpoint or of ``--quantization``; empty for 16 bits."""
    parameters: int
    active_parameters: int
    weights_bytes: int
    """Bytes that are loaded."""
    checkpoint_bytes: int
    """Bytes that are stored."""
    context: int
    concurrency: int
    parts: tuple[Part, ...]
    cache: Cache
    splits: tuple[SplitSize, ...]
    hardware: tuple[HardwareSize, ...]
    """Classes of the catalogue, or pools of the fleet; first those that serve on the fewest devices."""
    servable: bool
    """True if some hardware can serve the model."""


def size(name: str, model: Model, load: Load, hardware: Iterable[HardwareSize]) -> Size:
    """Return the size of a model. Raises ``UserError``."""
    architecture, weights = model.architecture, model.weights
    cache = _cache(architecture, load)
    if cache.sequence_bytes * load.concurrency > MAX_BYTES:
        raise UserError(
            f"{load.concurrency:,} sequences of {load.context:,} tokens take more than a pebibyte: lower "
            "--context-length or --concurrency"
        )
    rows = tuple(sorted(hardware, key=_rank))
    return Size(
        model=name,
        model_type=architecture.model_type,
        quantization=model.quantization.method if model.quantization else "",
        parameters=weights.total,
        active_parameters=weights.count_active(architecture),
        weights_bytes=weights.size,
        checkpoint_bytes=weights.stored,
        context=load.context,
        concurrency=load.concurrency,
        parts=tuple(
            Part(name=role, parameters=weights.parameters.get(role, 0), bytes=weights.sizes[role])
            for role in Role
            if role in weights.sizes
        ),
        cache=cache,
        splits=tuple(_splits(model, load)),
        hardware=rows,
        servable=any(not row.reason for row in rows),
    )


def _rank(row: HardwareSize) -> tuple[object, ...]:
    price = money.parse_amount(row.cost_per_hour) if row.cost_per_hour else 0
    name = (row.cluster, row.pool, row.inference_class)
    return (bool(row.reason), row.devices, row.nodes, price, row.device_bytes, name)


def _cache(model: Architecture, load: Load) -> Cache:
    states = model.layers.count(LayerKind.STATE)
    return Cache(
        full_layers=model.layers.count(LayerKind.FULL),
        sliding_layers=model.layers.count(LayerKind.SLIDING),
        state_layers=states,
        layer_bytes_per_token=compute_token_bytes(model, element=load.element),
        state_bytes_per_sequence=states * compute_state_bytes(model),
        sequence_bytes=compute_sequence_bytes(
            model, model.layers, load.context, step_tokens=BATCHES[-1].tokens, element=load.element
        ),
        heads=0 if model.latent else model.kv_heads,
        head_dim=model.latent or model.head_dim,
        element_bytes=load.element,
    )


def _splits(model: Model, load: Load) -> Iterator[SplitSize]:
    for pipeline in PIPELINE_SIZES:
        for tensor in TENSOR_SIZES:
            split = find_best_split(model.architecture, model.quantization, tensor, pipeline)
            refused = find_rejections(model.architecture, model.quantization, split)
            parts = Memory(0, 0, 0, 0) if refused else _on_the_smallest(model, split, load)
            yield SplitSize(
                name=str(split),
                tensor=tensor,
                pipeline=pipeline,
                expert=split.expert,
                weights_bytes=parts.weights,
                cache_bytes=parts.cache,
                overhead_bytes=parts.overhead,
                gpu_bytes=parts.gpu,
                node_bytes=parts.gpu * tensor,
                rejections=refused,
            )


def _on_the_smallest(model: Model, split: Split, load: Load) -> Memory:
    """Return what a split needs of the smallest GPUs that suffice, whose defaults are the smallest too."""

    def is_sufficient(step: Batch, larger: Batch) -> bool:
        return compute_memory(model, split, load, step).gpu < larger.gpu_gib * GIB

    pairs = zip(reversed(BATCHES), reversed(BATCHES[:-1]), strict=False)
    step = next((step for step, larger in pairs if is_sufficient(step, larger)), BATCHES[0])
    return compute_memory(model, split, load, step)


def size_classes(model: Model, load: Load, classes: Iterable[InferenceClass]) -> Iterator[HardwareSize]:
    """Yield how each class serves a model."""
    for class_ in classes:
        if (hardware := describe_node(class_)) is not None:
            yield _row(hardware, plan_service(model, hardware, load))


class PoolFit(NamedTuple):
    """A pool of a cluster, and how it serves a model."""

    cluster: InferenceCluster
    pool: str
    node: Node
    result: Served | Rejected


def size_pools(model: Model, load: Load, objects: Iterable[Object]) -> Iterator[HardwareSize]:
    """Yield how each pool of a fleet serves a model. Raises ``InvalidObject``."""
    for fit in find_pool_fits(model, load, objects):
        yield _row(fit.node, fit.result, fit.cluster.metadata.name, fit.pool)


def find_pool_fits(model: Model, load: Load, objects: Iterable[Object]) -> Iterator[PoolFit]:
    """Yield each pool of a fleet with how it serves a model. Raises ``InvalidObject``."""
    items = list(objects)
    classes = {known_class.metadata.name: known_class for known_class in _decoded(items, InferenceClass)}
    for cluster in _decoded(items, InferenceCluster):
        for pool in cluster.spec.node_pools:
            class_ = classes.get(pool.class_name)
            hardware = describe_node(class_, pool.pricing, spot=pool.spot) if class_ else None
            if hardware is None:
                named = f'InferenceClass "{pool.class_name}"'
                rejected = (
                    Rejected(subject=named, detail="has no device with memory")
                    if class_
                    else Rejected(subject=named, detail="is not in --fleet", remedy="add its file")
                )
                yield PoolFit(cluster, pool.name, Node(pool.class_name, "", 0, 0), rejected)
            else:
                most = max(pool.node_count, pool.max_node_count or 0)
                yield PoolFit(cluster, pool.name, hardware, plan_service(model, hardware, load, most))


def _decoded(objects: Iterable[Object], type_: type[M]) -> Iterator[M]:
    kind = kind_of(type_)
    for item in objects:
        if (item.get("apiVersion"), item.get("kind")) == (kind.api_version, kind.name):
            yield decode_as(type_, item)


def _row(node: Node, result: Served | Rejected, cluster: str = "", pool: str = "") -> HardwareSize:
    row = HardwareSize(
        inference_class=node.name,
        cluster=cluster,
        pool=pool,
        device=node.device,
        device_bytes=node.memory,
        devices=0,
        nodes=0,
        split="",
        needed_bytes=0,
        concurrency=0,
        currency=node.currency,
        cost_per_hour="",
        reason="",
    )
    if isinstance(result, Rejected):
        return replace(row, reason=result.message)
    return replace(
        row,
        devices=result.split.gpus,
        nodes=result.nodes,
        split=str(result.split),
        needed_bytes=result.memory.gpu,
        concurrency=result.concurrency,
        cost_per_hour="" if result.price is None else money.format_amount(result.price),
    )
