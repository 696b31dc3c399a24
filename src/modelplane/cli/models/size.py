"""``modelplane size``: the memory of a model, and the hardware that can serve it."""

from typing import Final

import click

from modelplane.cli.errors import UserError
from modelplane.cli.manifest_files import load
from modelplane.cli.models.model_argument import add_model_options
from modelplane.cli.options import add_all_option, add_fleet_option
from modelplane.cli.output import TEXT, add_output_option, print_document

NOT_SERVABLE: Final = 2
"""Exit status if no hardware can serve the model."""


@click.command()
@add_model_options
@click.option(
    "--quantization",
    type=click.Choice(["fp8", "int4", "mxfp4", "nvfp4"]),
    help="Size a 16-bit checkpoint as if it were converted to this.",
)
@click.option(
    "--kv-cache-dtype",
    type=click.Choice(["auto", "fp8"]),
    default="auto",
    help="auto for 16 bits, or fp8. Default: auto.",
)
@add_fleet_option("Compare with the pools of these classes and clusters instead of the catalogue.")
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
    """Compute the memory of a model: weights, KV cache, and what each GPU needs for each legal split.

    MODEL is OWNER/NAME on the Hugging Face hub, of which only config.json and the headers of the
    safetensors files are read. The exit status is 2 if no hardware can serve the model.
    """
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.cli.models import size_tables
    from modelplane.cli.models.model_argument import TOKENS_OPTION, read_checkpoint
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
        size_tables.show_size(result, everything=everything)
    if not result.servable:
        raise click.exceptions.Exit(NOT_SERVABLE)
