"""State of the gateway's configuration, as the process that publishes it reports it.

It is a ConfigMap beside the configuration. Only the publisher knows whether the gateway's module and
certificates are usable; under Crossplane, another process writes the conditions.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from modelplane.api.schema.untyped import get_map

NAME: Final = "modelplane-gateway-state"
"""Name of the ConfigMap, in the system's namespace."""

_KEY: Final = "state.json"


class GatewayState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Configuration that the gateway serves, and its problems."""

    problem: str = ""
    """Reason why it serves no request; empty if none is known."""
    without_module: str = ""
    """Reason why Envoy runs without the gateway's module; empty if it has it."""
    tls_problem: str = ""
    """Problem of its certificates."""
    asks_for_keys: bool = False
    """True if the published configuration admits requests with a key only."""
    has_tls: bool = False
    """True if the published configuration serves TLS only."""
    keys_sent: dict[str, datetime] = msgspec.field(default_factory=dict)
    """Time since which the gateway sends the tokens of a key, by the key's number."""


def build_manifest(state: GatewayState, namespace: str) -> dict[str, Any]:
    """Return the ConfigMap of a state."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace},
        "data": {_KEY: msgspec.json.encode(state, order="deterministic").decode()},
    }


def read(config_map: Mapping[str, Any]) -> GatewayState | None:
    """Return the state in a ConfigMap; None if it has none that can be read."""
    try:
        return msgspec.json.decode(get_map(config_map, "data").get(_KEY, ""), type=GatewayState)
    except msgspec.DecodeError:
        return None
