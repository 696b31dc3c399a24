"""``-o``: the form in which a command prints its result."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from modelplane.offline.files.report_documents import Output

F = TypeVar("F", bound=Callable[..., Any])

TEXT = "text"
"""The form for people: tables and sentences."""


def add_output_option(command: F) -> F:
    """Give a command ``-o``: text by default, or a document."""
    return add_chosen_output(TEXT, "json", "yaml", help_text="Text to read, or a document. Default: text.")(
        command
    )


def add_chosen_output(default: str, *others: str, help_text: str) -> Callable[[F], F]:
    """Return a decorator that gives a command ``-o`` with forms of its own."""
    return click.option(
        "-o", "--output", type=click.Choice([default, *others]), default=default, help=help_text
    )


def print_document(document: "Output | Mapping[str, Any]", output: str) -> None:
    """Print a document as JSON or as YAML."""
    from modelplane.offline.files.report_documents import to_json

    if output == "json":
        click.echo(to_json(document))
        return
    import msgspec

    from modelplane.offline.files.yaml_output import to_yaml

    click.echo(to_yaml(msgspec.to_builtins(document)), nl=False)
