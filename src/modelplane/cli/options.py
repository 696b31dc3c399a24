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
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Where the fleet keeps its data; also {ENVIRONMENT_VARIABLE}.",
    )(command)
