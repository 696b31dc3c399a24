"""The files of engine flags, read once, and apart from the others because most commands need neither."""

from functools import cache
from pathlib import Path

import msgspec

from modelplane.catalogue.flag_table import FlagTable


@cache
def load_flag_table(engine: str) -> FlagTable:
    """Return the flags of an engine: vllm, sglang or llama.cpp."""
    # Not by importlib.resources, whose import takes longer than the file.
    written = Path(__file__).with_name("engine_flags") / f"{engine}.json"
    return msgspec.json.decode(written.read_bytes(), type=FlagTable)
