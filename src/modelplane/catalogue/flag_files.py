"""The files of engine flags, read once, and apart from the others because most commands need neither."""

from functools import cache
from pkgutil import get_data

import msgspec

from modelplane.catalogue.flag_table import FlagTable


@cache
def flag_table(engine: str) -> FlagTable:
    """Return the flags of an engine: vllm, sglang or llama.cpp."""
    # Not by importlib.resources, whose import takes longer than the file.
    written = get_data("modelplane.catalogue", f"engine_flags/{engine}.json")
    return msgspec.json.decode(written or b"", type=FlagTable)
