"""Printed results of commands: tables for users and for programs that parse them, or a document (``-o``).

Names are never truncated: a terminal wraps wide rows, and a pipe gets each row on one line.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from modelplane.api.report_tables import Table
    from modelplane.offline.files.report_documents import Output

F = TypeVar("F", bound=Callable[..., Any])

TEXT = "text"
"""The form for people: tables and sentences."""


def add_output_option(command: F) -> F:
    """Give a command ``-o``: text by default, or a document."""
    return add_chosen_output(TEXT, "json", "yaml", help_text="Output format. Default: text.")(command)


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

    from modelplane.offline.files.yaml_text import to_yaml

    click.echo(to_yaml(msgspec.to_builtins(document)), nl=False)


def clean_text(text: str) -> str:
    """Return a text without what would change the terminal: tenants write some of them."""
    return "".join(character if character.isprintable() else " " for character in text)


def print_table(table: "Table") -> None:
    """Print a table below its title, and the number of rows that it leaves out; nothing without rows."""
    rows = [[clean_text(cell) for cell in row] for row in table.rows]
    if not rows:
        return
    title = f"{table.title}:" if table.title else ""
    # As rich sees it, whose import takes longer than a plain table needs.
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        _show_on_terminal(title, table.columns, rows)
    else:
        _show_plainly(title, table.columns, rows)
    if table.left_out:
        click.echo(f"and {table.left_out:,} more: --all shows them")


def _show_plainly(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    if title:
        click.echo(f"\n{title}")
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _show_on_terminal(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as printed:
        if title:
            console.print(Text(f"\n{title}"), style="bold")
        console.print(table)
    console.file.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())
