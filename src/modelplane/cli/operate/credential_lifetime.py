"""``--credential-lifetime``: how long the tokens are valid that controllers request from clusters."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from modelplane.cli import durations
from modelplane.install.installation_options import CREDENTIAL_LIFETIME

F = TypeVar("F", bound=Callable[..., Any])


def add_credential_lifetime_option(command: F) -> F:
    """Give a command ``--credential-lifetime``, a duration that API servers accept for a token."""
    return click.option(
        "--credential-lifetime",
        default=CREDENTIAL_LIFETIME,
        show_default=True,
        callback=_lifetime,
        metavar="DURATION",
        help="Lifetime of the tokens that are requested from clusters, at least 10m.",
    )(command)


def _lifetime(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    seconds = durations.parse_seconds(text, "choose a shorter one")
    if seconds < 600:
        raise click.BadParameter(f'"{text}" is shorter than 10m, the shortest that API servers grant')
    return f"{seconds}s" if "d" in text else text  # kubectl has no days
