"""Naming several things in a sentence that stays short and always the same."""

from collections.abc import Iterable, Sequence


def alternatives(items: Sequence[str], word: str = "or") -> str:
    """Return all items in their order, with a word before the last: "GKE or EKS"."""
    *others, last = items
    return f"{', '.join(others)} {word} {last}" if others else last


def listing(items: Iterable[str], most: int = 3) -> str:
    """Return so many items at most, sorted, "and N more" for the rest."""
    ordered = sorted(items)
    shown = ", ".join(ordered[:most])
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown
