"""``modelplane size``: the memory of a model, and the hardware that can serve it."""

from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.errors import UserError
from modelplane.cli.manifest_files import MANIFESTS, add_output_option, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelplane.offline.models.size_report import HardwareSize
    from modelplane.sizing.memory import Load, Model

NOT_SERVABLE: Final = 2
"""Exit status if no hardware can serve the model."""
_ELEMENTS: Final = {"auto": 2, "fp8": 1}


@click.command()
@click.argument("model", metavar="MODEL|./FOLDER")
@click.option("--revision", default="", metavar="NAME", help="Branch, tag or commit on the hub.")
@click.option(
    "--context",
    type=click.IntRange(1, 2**31),
    help="Tokens of a sequence, prompt and answer; by default the most that the model has.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="Sequences of that length at the same time.",
)
@click.option(
    "--quantization",
    type=click.Choice(["fp8", "int4", "mxfp4", "nvfp4"]),
    help="Size a 16-bit checkpoint as if it were converted to this.",
)
@click.option(
    "--kv-cache-dtype",
    type=click.Choice(list(_ELEMENTS)),
    default="auto",
    show_default=True,
    help="16 bits, or FP8.",
)
@click.option(
    "--fleet",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Compare with the pools of these classes and clusters instead of the catalogue; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Show all hardware, also what cannot serve it.")
@add_output_option("table", "Tables to read, or a JSON document.")
def size(  # noqa: PLR0913  an argument for each option
    *,
    model: str,
    revision: str,
    context: int | None,
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
    from modelplane.checkpoints.checkpoint import build_model
    from modelplane.cli.models import size_tables
    from modelplane.cli.models.model_argument import choose_context, read_checkpoint
    from modelplane.offline.files import output as documents
    from modelplane.offline.models import size_report
    from modelplane.sizing.memory import Load

    checkpoint = read_checkpoint(model, revision)
    checkpoint_model = build_model(checkpoint, quantization)
    length = choose_context(checkpoint.name, checkpoint_model, context)
    sequences = Load(length, concurrency, _ELEMENTS[kv_cache_dtype])
    result = size_report.size(
        checkpoint.name, checkpoint_model, sequences, _hardware(checkpoint_model, sequences, fleet)
    )
    if output == "json":
        click.echo(documents.to_json(result))
    else:
        size_tables.show_size(result, everything=everything)
    if not result.servable:
        raise click.exceptions.Exit(NOT_SERVABLE)


def _hardware(model: "Model", sequences: "Load", fleet: tuple[str, ...]) -> "Iterator[HardwareSize]":
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.catalogue.catalogue_files import load_catalogue
    from modelplane.catalogue.inference_classes import build_class
    from modelplane.offline.models.size_report import size_classes, size_pools

    if not fleet:
        machines = load_catalogue()
        classes = [build_class(machines, machine) for machine in machines.machines.values()]
        yield from size_classes(model, sequences, classes)
        return
    [objects] = load(fleet)
    try:
        yield from size_pools(model, sequences, objects)
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error
