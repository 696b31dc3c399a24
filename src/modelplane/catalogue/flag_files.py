"""The files of engine flags, read once, and apart from the others because most commands need neither."""

from functools import cache
from importlib import resources

import msgspec

from modelplane.catalogue.flag_table import FlagTable


@cache
def flag_table(engine: str) -> FlagTable:
    """Return the flags of an engine: vllm, sglang or llama.cpp."""
    folder = resources.files("modelplane.catalogue").joinpath("engine_flags")
    return msgspec.json.decode(folder.joinpath(f"{engine}.json").read_bytes(), type=FlagTable)
