"""The MODEL of ``size`` and ``deploy``: a checkpoint in a folder, or on the hub."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.checkpoints.checkpoint import Checkpoint


F = TypeVar("F", bound=Callable[..., Any])

TOKENS_OPTION: Final = "--context-length"

_OPTIONS = (
    click.argument("model", metavar="MODEL|./FOLDER"),
    click.option(
        "--revision", default="", metavar="NAME", help="Branch, tag or commit on the hub. Default: main."
    ),
    click.option(
        TOKENS_OPTION,
        type=click.IntRange(1, 2**31),
        metavar="TOKENS",
        help="Tokens of a sequence, prompt and answer. Default: the maximum of the model.",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 1_000_000),
        default=1,
        metavar="NUMBER",
        help="Sequences of that length at the same time. Default: 1.",
    ),
)


def add_model_options(command: F) -> F:
    """Give a command MODEL, its revision, and the load that it serves."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def is_folder(model: str) -> bool:
    """Return True if MODEL is the path of a folder, not a repository of the hub."""
    return model.startswith((".", "/", "~"))


def read_checkpoint(model: str, revision: str) -> "Checkpoint":
    """Return the checkpoint of a folder or of the hub. Raises ``UserError``."""
    from modelplane.checkpoints import checkpoint
    from modelplane.checkpoints.folder import Folder
    from modelplane.checkpoints.hub import Hub

    if model.endswith(".gguf"):
        raise UserError("a GGUF file cannot be sized: name the safetensors checkpoint that it was made from")
    if is_folder(model):
        if revision:
            raise click.UsageError("--revision is for the hub: leave it out for a folder")
        return checkpoint.read(Folder(Path(model).expanduser()))
    if model.count("/") != 1:
        hint = f": for the folder, write ./{model}" if Path(model).is_dir() else ""
        raise click.UsageError(f'"{model}" is not OWNER/NAME{hint}')
    return checkpoint.read(Hub(model, revision))
