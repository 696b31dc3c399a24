"""Tables for users, and for programs that parse them.

Names are never truncated: a terminal wraps wide rows, and a pipe gets each row on one line.
"""

import os
import sys
from collections.abc import Iterable, Sequence

import click


def clean_text(text: str) -> str:
    """Return a text without what would change the terminal: tenants write some of them."""
    return "".join(character if character.isprintable() else " " for character in text)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table below its title; nothing where it has no rows."""
    table = [[clean_text(cell) for cell in row] for row in rows]
    if not table:
        return
    # As rich sees it, whose import takes longer than a plain table needs.
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        _show_on_terminal(title, columns, table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *table, strict=True)]
    if title:
        click.echo(f"\n{title}")
    for row in (columns, *table):
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
