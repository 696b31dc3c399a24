"""``modelplane size``: the memory of a model, with the arithmetic behind each figure, and the hardware."""

from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.exit_statuses import UNMET
from modelplane.cli.models.deploy_options import add_model_options
from modelplane.cli.options import add_all_option, add_fleet_option, format_example, load
from modelplane.cli.output import TEXT, add_output_option, print_document, print_table
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelplane.offline.models.size_report import Cache, HardwareSize, Size

_MOST: Final = 20
"""Rows of hardware up to which all are printed."""


@click.command(epilog=format_example("modelplane size Qwen/Qwen3-8B --context-length 16384 --concurrency 32"))
@add_model_options
@click.option(
    "--quantization",
    type=click.Choice(["fp8", "int4", "mxfp4", "nvfp4"]),
    help="Size a 16-bit checkpoint as if it were converted to this format. Default: as stored.",
)
@click.option(
    "--kv-cache-dtype",
    type=click.Choice(["auto", "fp8"]),
    default="auto",
    help="Data type of the KV cache. auto means 16 bits. Default: auto.",
)
@add_fleet_option("Compare with the pools in these manifests instead of the catalogue.")
@add_all_option
@add_output_option
def size(  # noqa: PLR0913  an argument for each option
    *,
    model: str,
    revision: str,
    context_length: int | None,
    concurrency: int,
    quantization: str | None,
    kv_cache_dtype: str,
    fleet: tuple[str, ...],
    everything: bool,
    output: str,
) -> None:
    """Compute the memory that a model needs, and list the hardware that can serve it.

    MODEL is OWNER/NAME on the Hugging Face hub, or a folder. The command reads only config.json and the
    headers of the safetensors files. The exit status is 2 if no hardware can serve the model.
    """
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.cli.models.deploy_options import TOKENS_OPTION, read_checkpoint
    from modelplane.operations.model_sizes import size_model

    objects = load(fleet)[0] if fleet else None
    try:
        result = size_model(
            read_checkpoint(model, revision),
            quantization=quantization,
            tokens=context_length,
            concurrency=concurrency,
            kv_cache_dtype=kv_cache_dtype,
            fleet=objects,
            option=TOKENS_OPTION,
        )
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error
    if output != TEXT:
        print_document(result, output)
    else:
        # Print the size of a model.
        from modelplane.offline.models import size_rows

        click.echo(size_rows.describe_model(result))
        print_table(size_rows.WEIGHTS.tabulate("Weights", size_rows.list_weights(result)))
        _show_cache(result, result.cache)
        print_table(size_rows.SPLITS.tabulate(size_rows.SPLITS_TITLE, size_rows.list_splits(result)))
        for split in result.splits:
            if split.rejections and split.pipeline == 1:
                click.echo(f"{split.name} is not possible: {'; '.join(split.rejections)}")
        _show_hardware(result.hardware, everything=everything)
    if not result.servable:
        raise click.exceptions.Exit(UNMET)


def _show_cache(size: "Size", cache: "Cache") -> None:
    from modelplane.offline.models import size_rows

    click.echo("\nKV cache:")
    per_token, element = cache.layer_bytes_per_token, cache.element_bytes
    heads = (
        f"2 x {cache.heads} KV heads x {cache.head_dim}" if cache.heads else f"latent size {cache.head_dim}"
    )
    click.echo(f"  {heads} x {element} bytes = {per_token:,} bytes per token per layer")
    for count, what in ((cache.full_layers, "full"), (cache.sliding_layers, "sliding")):
        if count:
            click.echo(f"  {count} {what} layers x {per_token:,} = {count * per_token:,} bytes per token")
    if cache.state_layers:
        states = cache.state_bytes_per_sequence
        click.echo(f"  {cache.state_layers} layers with a state = {states:,} bytes per sequence")
    click.echo(f"  {size_rows.describe_cache(size)}")


def _show_hardware(hardware: "Sequence[HardwareSize]", *, everything: bool) -> None:
    from modelplane.offline.models import size_rows

    served = size_rows.tabulate_served(hardware, None if everything else _MOST)
    refused = size_rows.tabulate_refused(hardware)
    print_table(served)
    if everything or not served.rows:
        print_table(refused)
    elif refused.rows:
        click.echo(f"{len(refused.rows)} more can't serve the model: --all shows the reasons")
