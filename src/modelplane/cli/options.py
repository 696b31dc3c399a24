"""Options that several commands have, each with one name, one default and one meaning."""

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.output import TEXT, print_document
from modelplane.local.home import ENVIRONMENT_VARIABLE
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.files.sources import Source, Unopened


MANIFESTS = click.Path(exists=True, allow_dash=True)


def read(paths: Iterable[str]) -> "Iterator[Source | Unopened]":
    """Yield the texts of the paths given to a command."""
    from modelplane.offline.files import sources

    return sources.read(paths, lambda: sys.stdin.buffer)


def load(*groups: tuple[str, ...]) -> "list[tuple[Object, ...]]":
    """Return the objects of several groups of paths; print their problems and exit with 1 if there are any.

    With ``-o json`` or ``yaml`` the problems are printed as the document of ``validate``.
    """
    from modelplane.offline.files import store

    files = 0

    def count_files(paths: tuple[str, ...]) -> "Iterator[Source | Unopened]":
        nonlocal files
        for source in read(paths):
            files += 1
            yield source

    loaded = [store.load(count_files(paths)) for paths in groups]
    problems = tuple(problem for group in loaded for problem in group.problems)
    if not problems:
        return [group.objects for group in loaded]
    command = click.get_current_context()
    output = command.params.get("output")
    # A form that is the default, such as the text of plan and the YAML of render, has lines for people.
    if output and command.get_parameter_source("output") is not ParameterSource.DEFAULT and output != TEXT:
        from modelplane.offline.check import validation

        accepted = sum(len(group.objects) for group in loaded)
        print_document(validation.report_refused(problems, files=files, accepted=accepted), output)
    else:
        for problem in problems:
            click.echo(str(problem), err=True)
    raise click.exceptions.Exit(FAILED)


F = TypeVar("F", bound=Callable[..., Any])

FORMER: Final = {
    ("cluster register", "--control-plane"): "--kubeconfig",
    ("cluster register", "--control-plane-context"): "--context",
    ("controller", "--front-door"): "--gateway-address",
    ("deploy", "--kubeconfig-context"): "--context",
    ("example", "--write"): "--dir",
    ("package build", "--output"): "--dir",
    ("package build", "-o"): "--dir",
    ("render", "--front-door"): "--gateway-address",
    ("size", "--context"): "--context-length",
    ("usage", "--json"): "-o json",
}
"""Options of 0.9 that have another name now, by command."""


def format_example(example: str) -> str:
    """Return the end of a command's help: an example, which click does not wrap."""
    return f"\b\nExample:\n  {example}"


class ListedArgument(click.Argument):
    """An argument whose possible values are listed only where help or an error shows them."""

    def __init__(self, declarations: Sequence[str], values: Callable[[], Iterable[str]], **rest: Any) -> None:
        super().__init__(declarations, **rest)
        self._values = values

    def make_metavar(self, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return the possible values."""
        values = " | ".join(self._values())
        return values if self.required else f"[{values}]"


_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Units of Go's durations, and days."""
_PART = rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS_S)})"

LONGEST_D: Final = 36_500
"""The longest accepted duration, in days."""


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in later releases of click
    """A duration as kubectl takes it, such as 30s, 1h30m or 7d; converted to whole seconds, rounded up."""

    name = "duration"

    def __init__(self, remedy: str = "choose a shorter one") -> None:
        self._remedy = remedy
        """Return the remedy for a duration that is too long."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        try:
            return parse_seconds(value, self._remedy)
        except click.BadParameter as error:
            self.fail(error.message, param, ctx)


def parse_seconds(text: str, remedy: str) -> int:
    """Return a duration in seconds, rounded up: API servers take whole seconds, and at least one.

    Raises ``click.BadParameter``; ``remedy`` is for a duration that is too long.
    """
    if text == "0":
        return 0
    if re.fullmatch("[0-9]+", text):
        raise click.BadParameter(f'"{text}" has no unit: for seconds, write {text}s')
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise click.BadParameter(
            f'"{text}" is not a duration: use a value such as 30s, 10m, 1h30m, 1.5h, or 7d'
        )
    total = sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text))
    if total > LONGEST_D * _UNITS_S["d"]:
        raise click.BadParameter(f'"{text}" is longer than {LONGEST_D}d: {remedy}')
    return math.ceil(total)


def add_home_option(command: F) -> F:
    """Give a command ``--home``, a path or None, which ``choose_home`` resolves."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False),
        callback=_path,
        help=f"Directory of the local fleet. [env: {ENVIRONMENT_VARIABLE}]",
    )(command)


def _path(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    # An unset variable in quotes; as a path it would mean the working directory.
    if value == "":
        raise click.BadParameter("it is empty")
    return None if value is None else Path(value)


TIMEOUT_S: Final = 300
"""Default of ``--timeout``."""


def add_timeout_option(command: F) -> F:
    """Give a command ``--timeout``, as ``timeout_s``."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=Duration(),
        default=TIMEOUT_S,
        help="Maximum time to wait, such as 30s or 2m. Default: 5m.",
    )(command)


def add_dry_run_option(command: F) -> F:
    """Give a command ``--dry-run``."""
    return click.option("--dry-run", is_flag=True, help="Show what would change, without changing anything.")(
        command
    )


def add_yes_option(command: F) -> F:
    """Give a command ``--yes``, for ``confirm``."""
    return click.option("--yes", is_flag=True, help="Don't ask for confirmation.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless ``--yes`` is given; abort without it."""
    if not yes:
        require_terminal()
        click.confirm(question, abort=True)


def require_terminal() -> None:
    """Raise ``UserError`` if nobody can answer a question."""
    if not _has_terminal():
        raise UserError("standard input is not a terminal, so you can't confirm: add --yes")


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def add_all_option(command: F) -> F:
    """Give a command ``--all``, as ``everything``."""
    return click.option("--all", "everything", is_flag=True, help="Show all rows.")(command)


def add_fleet_option(help_text: str) -> Callable[[F], F]:
    """Return a decorator that gives a command ``--fleet``, paths of manifests, as a tuple."""
    return click.option(
        "--fleet",
        metavar="PATH",
        multiple=True,
        type=click.Path(exists=True, allow_dash=True),
        help=f"{help_text} You can repeat the option.",
    )


def add_gateway_address_option(help_text: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--gateway-address``, as ``gateway_address``, empty by default."""
    return click.option("--gateway-address", default="", metavar="HOST:PORT", help=help_text)


def add_credential_lifetime_option(command: F) -> F:
    """Give a command ``--credential-lifetime``, a duration that API servers accept for a token."""
    from modelplane.install.installation_options import CREDENTIAL_LIFETIME

    return click.option(
        "--credential-lifetime",
        default=CREDENTIAL_LIFETIME,
        callback=_lifetime,
        metavar="DURATION",
        help=(
            "Lifetime of the tokens that Modelplane requests from clusters, at least 10m. "
            f"Default: {CREDENTIAL_LIFETIME}."
        ),
    )(command)


def _lifetime(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    seconds = parse_seconds(text, "choose a shorter one")
    if seconds < 600:
        raise click.BadParameter(f'"{text}" is shorter than 10m, the minimum that API servers grant')
    return f"{seconds}s" if "d" in text else text  # kubectl has no days
