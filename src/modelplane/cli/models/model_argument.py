"""The MODEL of ``size`` and ``deploy``: a checkpoint in a folder, or on the hub."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.checkpoints.checkpoint import Checkpoint
    from modelplane.sizing.memory import Model


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


def choose_context(name: str, model: "Model", context: int | None) -> int:
    """Return the tokens of a sequence."""
    most = model.architecture.max_positions
    if context is None and not most:
        raise UserError(f"config.json of {name} has no max_position_embeddings: give --context")
    if context and most and context > most:
        raise UserError(f"{name} has at most {most:,} positions: give a smaller --context")
    return context or most
