"""Kubeconfig in a Secret.

One rule: errors name the Secret and its key, never their content.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import yaml

# The one in C is ten times as fast, and not in every build of the library.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_DEEPEST = 20
"""Deepest nesting of a kubeconfig; an ordinary one has six levels."""


def content(secret: Mapping[str, Any] | None, key: str, where: str) -> bytes:
    """Return the text of the kubeconfig; ``where`` names the Secret in the ``ValueError``."""
    if secret is None:
        raise ValueError(f"there is no {where}: create it with the cluster's kubeconfig")
    encoded = secret.get("data", {}).get(key)
    if not encoded:
        raise ValueError(f'{where} has no key "{key}"')
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f'key "{key}" of {where} is not base64') from None


def parsed(text: bytes, key: str, where: str) -> dict[str, Any]:
    """Return the kubeconfig as a mapping. Raises ``ValueError``."""
    try:
        _check_depth(text)
        return dict(yaml.load(text, _LOADER))  # noqa: S506 - a safe loader, whichever of the two
    except Exception:  # noqa: BLE001 - constructors of YAML's tags raise whatever their code happens to
        # Not the parser's message: it quotes the text, which has credentials.
        raise ValueError(f'key "{key}" of {where} is not a kubeconfig') from None


def _check_depth(text: bytes) -> None:
    """Raise ``ValueError`` for nesting that would overflow the loader's stack and end the process."""
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
