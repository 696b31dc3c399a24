"""Options shared by several commands."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from modelplane.local.home import ENVIRONMENT_VARIABLE

F = TypeVar("F", bound=Callable[..., Any])


class ListedArgument(click.Argument):
    """An argument whose possible values are listed only where help or an error shows them."""

    def __init__(self, declarations: Sequence[str], values: Callable[[], Iterable[str]], **rest: Any) -> None:
        super().__init__(declarations, **rest)
        self._values = values

    def make_metavar(self, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return the possible values."""
        values = " | ".join(self._values())
        return values if self.required else f"[{values}]"


def add_home_option(command: F) -> F:
    """Give a command ``--home``, a path or None, which ``choose_home`` resolves."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False),
        callback=_path,
        help=f"Directory of the fleet's data; also {ENVIRONMENT_VARIABLE}.",
    )(command)


def _path(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    # An unset variable in quotes; as a path it would mean the working directory.
    if value == "":
        raise click.BadParameter("it is empty")
    return None if value is None else Path(value)


def add_gateway_address_option(help_text: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--gateway-address``, as ``gateway_address``, empty by default."""
    option = click.option("--gateway-address", default="", metavar="HOST:PORT", help=help_text)

    def give(command: F) -> F:
        return option(allow_former_name("--front-door", "--gateway-address")(command))

    return give


def allow_former_name(former: str, current: str) -> Callable[[F], F]:
    """Return a decorator that accepts an option by its former name, for one release.

    The option of the current name must be empty by default.
    """
    hidden, shown = _parameter(former), _parameter(current)

    def give(command: F) -> F:
        @wraps(command)
        def with_former(**options: Any) -> Any:
            given = options.pop(hidden)
            if given is not None:
                if options[shown]:
                    raise click.UsageError(f"{former} is the former name of {current}: give {current} only")
                click.echo(
                    f"Warning: {former} is now {current}; the next release removes the former name: "
                    f"write {current}",
                    err=True,
                )
                options[shown] = given
            return command(**options)

        return cast("F", click.option(former, hidden, hidden=True)(with_former))

    return give


def _parameter(option: str) -> str:
    return option.lstrip("-").replace("-", "_")
