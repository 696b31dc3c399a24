"""Tables for users, and for programs that parse them.

Names are never truncated: a terminal wraps wide rows, and a pipe gets each row on one line.
"""

from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """Return a text without what would change the terminal: tenants write some of them."""
    return "".join(each if each.isprintable() else " " for each in text)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table below its title; nothing where it has no rows."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = list(rows)
    if not found:
        return
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 100_000
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=not console.is_terminal, overflow="fold")
    for row in found:
        table.add_row(*(Text(printable(cell)) for cell in row))
    with console.capture() as printed:
        if title:
            console.print(Text(f"\n{title}"), style="bold")
        console.print(table)
    console.file.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())
