"""Naming several things in a sentence that stays short and always the same."""

from collections.abc import Iterable


def listing(items: Iterable[str], most: int = 3) -> str:
    """Return so many items at most, sorted, "and N more" for the rest."""
    ordered = sorted(items)
    shown = ", ".join(ordered[:most])
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown
