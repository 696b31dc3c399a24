"""Lists in sentences: short, and the same on every reconcile."""

from collections.abc import Iterable, Sequence
from typing import Final

LIMIT: Final = 3


def join_alternatives(items: Sequence[str], word: str = "or") -> str:
    """Join all items in the given order, with a word before the last: "GKE or EKS"."""
    *others, last = items
    return f"{', '.join(others)} {word} {last}" if others else last


def listing(items: Iterable[str], limit: int = LIMIT) -> str:
    """Join up to `limit` items in sorted order and count the rest."""
    return in_order(sorted(items), limit)


def in_order(items: Sequence[str], limit: int = LIMIT, separator: str = ", ") -> str:
    """Join up to `limit` items in the given order and count the rest."""
    shown = separator.join(items[:limit])
    if len(items) <= limit:
        return shown
    # A semicolon stays, so that the count does not belong to the last item.
    return f"{shown}{separator.rstrip(', ')} and {len(items) - limit:,} more"


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: "1 node", "2 nodes", "3 classes"."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {noun}es" if noun.endswith("s") else f"{number} {noun}s"


def format_subject(noun: str, names: Sequence[str], one: str, several: str) -> str:
    """Name the subject of a sentence with the verb that fits: "engine a is", "engines a, b are"."""
    return f"{noun} {names[0]} {one}" if len(names) == 1 else f"{noun}s {listing(names)} {several}"
