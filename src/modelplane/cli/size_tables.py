"""Tables of ``modelplane size``, with the arithmetic behind each figure."""

from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.tables import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelplane.offline.size_report import Cache, HardwareSize, Size, SplitSize

_GIB: Final = 2**30
_GPUS_OF_NODES: Final = (4, 8)
"""The usual numbers, for which pipelines over several nodes are printed."""
_MOST: Final = 20
"""Rows of hardware up to which all are printed."""


def show_size(size: "Size", *, everything: bool) -> None:
    """Print the size of a model."""
    quantization = f", {size.quantization}" if size.quantization else ""
    active = f", {size.active_parameters:,} active" if size.active_parameters != size.parameters else ""
    click.echo(f"{size.model}: {size.parameters:,} parameters{active}{quantization}")
    show("Weights:", ("PART", "PARAMETERS", "BYTES", "GIB"), _weights(size))
    _show_cache(size, size.cache)
    _show_splits(size)
    _show_hardware(size.hardware, everything=everything)


def _gib(size: int) -> str:
    return f"{size / _GIB:,.2f}"


def _weights(size: "Size") -> "list[tuple[str, ...]]":
    rows: list[tuple[str, ...]] = [
        (each.name, f"{each.parameters:,}", f"{each.bytes:,}", _gib(each.bytes)) for each in size.parts
    ]
    rows.append(("loaded", f"{size.parameters:,}", f"{size.weights_bytes:,}", _gib(size.weights_bytes)))
    rows.append(("checkpoint", "", f"{size.checkpoint_bytes:,}", _gib(size.checkpoint_bytes)))
    return rows


def _show_cache(size: "Size", cache: "Cache") -> None:
    click.echo("\nKV cache:")
    each, element = cache.layer_bytes_per_token, cache.element_bytes
    heads = (
        f"2 x {cache.heads} KV heads x {cache.head_dim}" if cache.heads else f"a latent of {cache.head_dim}"
    )
    click.echo(f"  {heads} x {element} bytes = {each:,} bytes of a token in a layer")
    for count, what in ((cache.full_layers, "full"), (cache.sliding_layers, "sliding")):
        if count:
            click.echo(f"  {count} {what} layers x {each:,} = {count * each:,} bytes of a token")
    if cache.state_layers:
        states = cache.state_bytes_per_sequence
        click.echo(f"  {cache.state_layers} layers with a state = {states:,} bytes of a sequence")
    click.echo(
        f"  {size.context:,} tokens = {_gib(cache.sequence_bytes)} GiB of a sequence, in whole blocks, x "
        f"{size.concurrency:,} = {_gib(cache.sequence_bytes * size.concurrency)} GiB"
    )


def _show_splits(size: "Size") -> None:
    legal = [
        each
        for each in size.splits
        if not each.rejections and (each.pipeline == 1 or each.tensor in _GPUS_OF_NODES)
    ]
    columns = ("SPLIT", "WEIGHTS", "+ KV", "+ OTHER", "/ 0.92 = GPU", "NODE")
    show("Each GPU, in GiB (other: runtime, communication and activations):", columns, map(_split, legal))
    for each in size.splits:
        if each.rejections and each.pipeline == 1:
            click.echo(f"{each.name} is not legal: {'; '.join(each.rejections)}")


def _split(each: "SplitSize") -> tuple[str, ...]:
    sizes = (each.weights_bytes, each.cache_bytes, each.overhead_bytes, each.gpu_bytes, each.node_bytes)
    return (each.name, *map(_gib, sizes))


def _show_hardware(hardware: "Sequence[HardwareSize]", *, everything: bool) -> None:
    found = [each for each in hardware if not each.reason]
    told = found if everything else found[:_MOST]
    places = ("CLUSTER", "POOL") if any(each.cluster for each in hardware) else ()
    cost = ("COST/HOUR",) if any(each.cost_per_hour for each in told) else ()
    columns = (*places, "CLASS", "DEVICES", "NODES", "SPLIT", "GIB OF EACH", "SEQUENCES", *cost)
    show(
        "Hardware that can serve it:", columns, (_served(each, bool(places))[: len(columns)] for each in told)
    )
    if len(told) < len(found):
        click.echo(f"and {len(found) - len(told)} more: --all shows them")
    refused = [each for each in hardware if each.reason]
    if everything or not found:
        rows = ((*_place(each, bool(places)), each.inference_class, each.reason) for each in refused)
        show("Hardware that cannot:", (*places, "CLASS", "REASON"), rows)
    elif refused:
        click.echo(f"{len(refused)} more cannot serve it: --all says why")


def _place(each: "HardwareSize", is_pool: bool) -> tuple[str, ...]:
    return (each.cluster, each.pool) if is_pool else ()


def _served(each: "HardwareSize", is_pool: bool) -> tuple[str, ...]:
    return (
        *_place(each, is_pool),
        each.inference_class,
        f"{each.devices} {each.device}",
        str(each.nodes),
        each.split,
        f"{_gib(each.needed_bytes)} of {_gib(each.device_bytes)}",
        f"{each.concurrency:,}" if each.concurrency else "any number",
        f"{each.cost_per_hour} {each.currency}" if each.cost_per_hour else "",
    )
