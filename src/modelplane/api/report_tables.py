"""Columns of reports and the parts of explanations, for commands, the dashboard and assistants."""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Table(NamedTuple):
    """A table of texts; ``left_out`` counts the rows that it does not show."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


class Columns(Generic[T]):
    """The declaration of a table of objects: the title of each column, and its text for an object."""

    def __init__(self, *columns: tuple[str, Callable[[T], str]]) -> None:
        self.columns = columns

    def tabulate(self, title: str, items: Iterable[T], most: int | None = None) -> Table:
        """Return the table of objects, with at most so many rows, or all."""
        listed = list(items)
        shown = listed if most is None else listed[:most]
        rows = tuple(tuple(text(item) for _, text in self.columns) for item in shown)
        return Table(title, tuple(title for title, _ in self.columns), rows, len(listed) - len(shown))


class Explained(NamedTuple):
    """An explanation for people: a verdict in one line, tables, and notes."""

    verdict: str
    well: bool
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
