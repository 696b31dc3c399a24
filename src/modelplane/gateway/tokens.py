"""Tokens: the proof of a request to a cluster's gateway that it comes from the fleet's gateway.

Each replica has a token, derived from a key of the fleet and the replica's path. The fleet's gateway sends it
to the replica's path only, and the cluster's gateway routes no request there without it. One rule: a token is
required only once every gateway of the fleet sends it. So there can be two keys, each with a header.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from modelplane.api.meta import Object
from modelplane.api.schema.untyped import get_map
from modelplane.gateway.route_table import Route, Token

SECRET: Final = "modelplane-gateway-keys"  # noqa: S105  the name of a Secret
"""Name of the Secret with the keys, in the system's namespace: each is named by its number."""

REQUIRED: Final = "modelplane.ai/required-key"
"""Annotation of the Secret: the number of the key whose token clusters require, or ``none``."""

NONE: Final = "none"
"""Value by which an operator turns the requirement off, for example before a downgrade."""

HEADERS: Final = ("modelplane-gateway-even", "modelplane-gateway-odd")
"""Headers of tokens, by the last bit of the key's number."""

SETTLED: Final = timedelta(seconds=330)
"""Time after which no connection is left that a former configuration serves without tokens.

Such a connection serves one more request at most, and is closed after 300 seconds without one.
"""

_MINIMUM_SECRET_BYTES = 16


@dataclass(frozen=True, slots=True)
class GatewayKeys:
    """Keys of a fleet."""

    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """The newest two, by number."""
    required: int = 0
    """The number of the key whose tokens clusters require; 0 while they require none."""
    is_off: bool = False
    """True if an operator has turned the requirement off."""


def read(secret: Object) -> GatewayKeys:
    """Return the keys of a Secret, without those that are damaged."""
    found: dict[int, bytes] = {}
    for name, text in get_map(secret, "data").items():
        try:
            key = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
        if name.isdecimal() and len(key) >= _MINIMUM_SECRET_BYTES:
            found[int(name)] = key
    newest = dict(sorted(found.items())[-2:])
    annotation = get_map(secret, "metadata", "annotations").get(REQUIRED, "")
    required = int(annotation) if annotation.isdecimal() and int(annotation) in newest else 0
    return GatewayKeys(newest, required, annotation == NONE)


def build_manifest(keys: GatewayKeys, namespace: str) -> Object:
    """Return the Secret of keys."""
    required = NONE if keys.is_off else str(keys.required or "")
    annotations = {"annotations": {REQUIRED: required}} if required else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace, **annotations},
        "type": "Opaque",
        "data": {str(number): base64.b64encode(key).decode() for number, key in keys.keys.items()},
    }


def advance_keys(
    keys: GatewayKeys, sent_since: Mapping[int, datetime], now: datetime, settled: timedelta = SETTLED
) -> GatewayKeys:
    """Return the keys with the newest one required, once every gateway has sent its tokens long enough."""
    newest = max(keys.keys, default=0)
    since = sent_since.get(newest)
    if keys.is_off or newest == keys.required or since is None or now - since < settled:
        return keys
    return replace(keys, required=newest)


def list_tokens(keys: GatewayKeys, replica: str) -> tuple[Token, ...]:
    """Return the tokens of a replica, NAMESPACE/NAME: one for each key."""
    return tuple(_token(number, key, replica) for number, key in sorted(keys.keys.items()))


def find_required(keys: GatewayKeys, replica: str) -> Token | None:
    """Return the token that the cluster's gateway requires for a replica; None while it requires none."""
    key = keys.keys.get(keys.required)
    return None if key is None else _token(keys.required, key, replica)


def add_tokens(routes: Iterable[Route], keys: GatewayKeys) -> tuple[Route, ...]:
    """Return the routes of the fleet's gateway with the tokens of replicas."""
    return tuple(
        replace(
            route,
            backends=tuple(
                backend
                if backend.tokens is None
                else replace(backend, tokens=list_tokens(keys, backend.name))
                for backend in route.backends
            ),
        )
        for route in routes
    )


def _token(number: int, key: bytes, replica: str) -> Token:
    digest = hmac.new(key, replica.encode(), hashlib.sha256).digest()
    return Token(HEADERS[number % 2], base64.urlsafe_b64encode(digest).decode().rstrip("="))
