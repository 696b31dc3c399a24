# ruff: noqa: INP001  a script beside what it writes, not a package
"""The module of cards in the core, which reads no file: written from the catalogue."""

from collections.abc import Iterator

from modelplane.catalogue.catalogue_files import read
from modelplane.catalogue.entries import Cards, Figure


def card_rows(origin: str) -> str:
    """Return the text of ``catalogue/card_rows.py``."""
    lines = "\n".join(_rows())
    return f'''# {origin}
"""Rows of ``cards``: one for each card of the catalogue."""

ROWS: tuple[tuple[str, str | None, str, str | None, int, tuple[int, ...], bool], ...] = (
{lines}
)
"""Vendor, product name, architecture, compute capability, memory in Mi, nominal sizes in Gi, is verified."""
'''


def _rows() -> Iterator[str]:
    for card in read("cards.yaml", Cards).cards:
        verified = Figure.MEMORY not in card.unverified
        row = (
            card.vendor,
            card.product,
            card.architecture,
            card.capability,
            card.memory_mi,
            card.nominal_gi,
            verified,
        )
        fields = ", ".join(f'"{each}"' if isinstance(each, str) else repr(each) for each in row)
        yield f"    ({fields}),"
