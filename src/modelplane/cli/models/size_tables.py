"""Tables of ``modelplane size``, with the arithmetic behind each figure."""

from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.tables import show
from modelplane.offline.models import size_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelplane.offline.models.size_report import Cache, HardwareSize, Size

_MOST: Final = 20
"""Rows of hardware up to which all are printed."""


def show_size(size: "Size", *, everything: bool) -> None:
    """Print the size of a model."""
    click.echo(size_rows.describe_model(size))
    show(size_rows.WEIGHTS.tabulate("Weights", size_rows.list_weights(size)))
    _show_cache(size, size.cache)
    _show_splits(size)
    _show_hardware(size.hardware, everything=everything)


def _show_cache(size: "Size", cache: "Cache") -> None:
    click.echo("\nKV cache:")
    per_token, element = cache.layer_bytes_per_token, cache.element_bytes
    heads = (
        f"2 x {cache.heads} KV heads x {cache.head_dim}" if cache.heads else f"a latent of {cache.head_dim}"
    )
    click.echo(f"  {heads} x {element} bytes = {per_token:,} bytes of a token in a layer")
    for count, what in ((cache.full_layers, "full"), (cache.sliding_layers, "sliding")):
        if count:
            click.echo(f"  {count} {what} layers x {per_token:,} = {count * per_token:,} bytes of a token")
    if cache.state_layers:
        states = cache.state_bytes_per_sequence
        click.echo(f"  {cache.state_layers} layers with a state = {states:,} bytes of a sequence")
    click.echo(f"  {size_rows.describe_cache(size)}")


def _show_splits(size: "Size") -> None:
    show(size_rows.SPLITS.tabulate(size_rows.SPLITS_TITLE, size_rows.list_splits(size)))
    for split in size.splits:
        if split.rejections and split.pipeline == 1:
            click.echo(f"{split.name} is not legal: {'; '.join(split.rejections)}")


def _show_hardware(hardware: "Sequence[HardwareSize]", *, everything: bool) -> None:
    served = size_rows.tabulate_served(hardware, None if everything else _MOST)
    refused = size_rows.tabulate_refused(hardware)
    show(served)
    if everything or not served.rows:
        show(refused)
    elif refused.rows:
        click.echo(f"{len(refused.rows)} more cannot serve it: --all shows the reasons")
