"""Arguments and options of the commands that read manifests from files."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from modelplane.compose.composition import Object
    from modelplane.offline.sources import Source, Unopened

F = TypeVar("F", bound=Callable[..., Any])

MANIFESTS = click.Path(exists=True, allow_dash=True)


def paths_argument(command: F) -> F:
    """Give a command PATH..., of which there is at least one."""
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=MANIFESTS)(command)


def output_option(plain: str, help_text: str) -> Callable[[F], F]:
    """Give a command ``-o``: its plain form, which is the default, or json."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([plain, "json"]),
        default=plain,
        show_default=True,
        help=help_text,
    )


def read(paths: Iterable[str]) -> "Iterator[Source | Unopened]":
    """Yield the texts of paths as a command is given them."""
    from modelplane.offline import sources

    return sources.read(paths, lambda: sys.stdin.buffer)


def load(*groups: tuple[str, ...]) -> "list[tuple[Object, ...]]":
    """Return the objects of several groups of paths; say what is wrong with them and exit with 1."""
    from modelplane.offline import store

    loaded = [store.load(read(paths)) for paths in groups]
    problems = [problem for each in loaded for problem in each.problems]
    for problem in problems:
        click.echo(str(problem), err=True)
    if problems:
        raise click.exceptions.Exit(1)
    return [each.objects for each in loaded]
