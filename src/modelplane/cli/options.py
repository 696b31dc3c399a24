"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from modelplane.local.home import ENVIRONMENT_VARIABLE

F = TypeVar("F", bound=Callable[..., Any])


def home_option(command: F) -> F:
    """Give a command ``--home``, a path or None; ``home_directory`` says which home that is."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False),
        callback=_path,
        help=f"Where the fleet keeps its data; also {ENVIRONMENT_VARIABLE}.",
    )(command)


def _path(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    # A variable that is not set, between quotes; as a path it would mean the working directory.
    if value == "":
        raise click.BadParameter("it is empty")
    return None if value is None else Path(value)
