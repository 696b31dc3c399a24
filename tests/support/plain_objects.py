"""Copies of plain objects: ``copy.deepcopy`` takes five times as long, and some tests copy whole fleets."""

from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()


def copied(value: Any) -> Any:
    """Return a deep copy of JSON, in which nothing is shared."""
    return _DECODER.decode(_ENCODER.encode(value))
