"""Redaction of the data of Secrets.

One rule: neither the data of a Secret nor any text that contains one of its values is ever printed.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

HIDDEN: Final = "(hidden)"
_SHORTEST = 6  # a shorter one is in other texts by chance, as in "true"


def collect_hidden_values(objects: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return every value of the Secrets among the objects, decoded and encoded."""
    values: set[str] = set()
    for item in objects:
        if item.get("kind") != "Secret":
            continue
        values.update(map(str, (item.get("stringData") or {}).values()))
        for encoded in map(str, (item.get("data") or {}).values()):
            values.add(encoded)
            try:
                values.add(base64.b64decode(encoded, validate=True).decode())
            except (binascii.Error, UnicodeDecodeError):
                continue
    return frozenset(value for value in values if len(value) >= _SHORTEST)


def redact(value: Any, hidden: frozenset[str] = frozenset()) -> Any:
    """Return a document without the data of Secrets and without texts that contain a hidden value."""
    if isinstance(value, Mapping):
        whole = {key: redact(child, hidden) for key, child in value.items()}
        if value.get("kind") == "Secret":
            for key in ("data", "stringData"):
                if isinstance(whole.get(key), dict):
                    whole[key] = dict.fromkeys(whole[key], HIDDEN)
        return whole
    if isinstance(value, list | tuple):
        return [redact(child, hidden) for child in value]
    if isinstance(value, str) and any(secret in value for secret in hidden):
        return HIDDEN
    return value
