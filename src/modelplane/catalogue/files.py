"""The files of the catalogue, read once: the only module of it that reads any."""

from functools import cache
from importlib import resources
from typing import Any, TypeVar

import msgspec
import yaml

from modelplane.api.decode import convert
from modelplane.catalogue.entries import Cards, Catalogue, Machines
from modelplane.catalogue.flag_table import FlagTable

T = TypeVar("T")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of this version."""
    cards, machines = read("cards.yaml", Cards), read("machines.yaml", Machines)
    return Catalogue(
        cards.sources,
        {each.name: each for each in cards.cards},
        {each.name: each for each in machines.machines},
        machines.taints,
    )


@cache
def flag_table(engine: str) -> FlagTable:
    """Return the flags of an engine: vllm, sglang or llama.cpp."""
    folder = resources.files("modelplane.catalogue").joinpath("engine_flags")
    return msgspec.json.decode(folder.joinpath(f"{engine}.json").read_bytes(), type=FlagTable)


def read(name: str, type_: type[T]) -> T:
    """Return the content of a file. Raises ``msgspec.ValidationError`` if it does not match its schema."""
    text = resources.files("modelplane.catalogue").joinpath(name).read_text("utf-8")
    return convert(yaml.load(text, Loader=_LOADER), type_)  # noqa: S506  a safe loader
