"""Values of a Release, merged from Secrets and the Release itself, and messages without the secret ones."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected
from modelplane.compose import releases
from modelplane.controllers.helm.instruction import LARGEST_VALUES, Instruction, ValuesSource
from modelplane.kube.kubeconfig_secret import LOADER
from modelplane.kube.resources import Object

HIDDEN = "(hidden)"
_SHORTEST_HIDDEN = 4
"""Length from which a text of a Secret is hidden in messages; shorter ones are ``80``, ``no``, ``443``."""
_LONGEST_MESSAGE = 1024


def merge_values(
    instruction: Instruction, secret: Callable[[str], Object | None]
) -> tuple[dict[str, Any], frozenset[str]] | Rejected:
    """Return all values, and the texts among them that are secret; or why they cannot be read."""
    values: dict[str, Any] = {}
    texts: set[str] = set()
    for source in instruction.values_from:
        read = _read_values(source, secret(source.name))
        if isinstance(read, Rejected):
            return read
        texts.update(_list_texts(read))
        values = releases.merge_values(values, read)
    return releases.merge_values(values, instruction.values), frozenset(texts)


def _read_values(source: ValuesSource, secret: Object | None) -> Mapping[str, Any] | Rejected:
    where = f'Secret "{source.name}" in namespace "{SYSTEM_NAMESPACE}"'
    encoded = (secret or {}).get("data", {}).get(source.key)
    if encoded is None:
        if source.optional:
            return {}
        lacks = f'has no key "{source.key}"' if secret else "does not exist"
        return Rejected(subject=f"{where}, which has values,", detail=lacks)
    if len(encoded) > 2 * LARGEST_VALUES:
        return Rejected(
            subject=f'key "{source.key}" of {where}', detail=f"is larger than {LARGEST_VALUES // 1024} KiB"
        )
    try:
        text = base64.b64decode(encoded)
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, LOADER)):
            return Rejected(
                subject=f'key "{source.key}" of {where}', detail="has aliases", remedy="write the values out"
            )
        read = yaml.load(text, LOADER)  # noqa: S506 - a safe loader
    except (binascii.Error, yaml.YAMLError, ValueError, RecursionError):
        read = None
    if not isinstance(read, Mapping):
        # Not the parser's message, which quotes the text.
        return Rejected(subject=f'key "{source.key}" of {where}', detail="is not a YAML object with values")
    return read


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _list_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_texts(item)
    elif not isinstance(value, bool) and len(str(value)) >= _SHORTEST_HIDDEN:
        yield str(value)


def hide_secrets(message: str, texts: frozenset[str]) -> str:
    """Return a message without secret texts, and no longer than a condition is to be."""
    for text in sorted(texts, key=len, reverse=True):
        message = message.replace(text, HIDDEN)
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"
