"""Arguments and options of the commands that read manifests from files."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from modelplane.cli.output import TEXT, print_document

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
    raise click.exceptions.Exit(1)
