"""The files of cards and machines, read once."""

from functools import cache
from importlib import resources
from typing import Any, TypeVar

import yaml

from modelplane.api.schema.decode import convert
from modelplane.catalogue.entries import Cards, Catalogue, Machines

T = TypeVar("T")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue of this version."""
    cards, machines = read("cards.yaml", Cards), read("machines.yaml", Machines)
    return Catalogue(
        cards.sources,
        {card.name: card for card in cards.cards},
        {machine.name: machine for machine in machines.machines},
        machines.taints,
    )


def read(name: str, type_: type[T]) -> T:
    """Return the content of a file. Raises ``msgspec.ValidationError`` if it does not match its schema."""
    text = resources.files("modelplane.catalogue").joinpath(name).read_text("utf-8")
    return convert(yaml.load(text, Loader=_LOADER), type_)  # noqa: S506  a safe loader
