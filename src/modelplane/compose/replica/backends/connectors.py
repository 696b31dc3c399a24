"""Connectors: the flags and variables with which prefill hands the KV cache to decode.

Each row names its sources: the flags of vLLM 0.23.0 and SGLang 0.5.12 (``catalogue/engine_flags``), and those
of the routing sidecar, llm-d-router v0.10.0 (``pkg/sidecar/proxy/options.go``).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.containers import Container
from modelplane.api.fields.pods.engines import Connector, Phase
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.engine_flags import flag, has_script

_POD_IP: Final[Mapping[str, Any]] = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def _vllm(connector: str, role: str) -> tuple[str, ...]:
    config = msgspec.json.encode({"kv_connector": connector, "kv_role": role}).decode()
    return (f"--kv-transfer-config={config}",)


class ConnectorRow(msgspec.Struct, frozen=True):
    """Additions of a connector to the pods of the two engines."""

    sidecar: str
    """Value of the routing sidecar's ``--kv-connector``."""
    prefill: tuple[str, ...]
    """Arguments of a prefill engine."""
    decode: tuple[str, ...]
    """Arguments of a decode engine."""
    variables: tuple[Mapping[str, Any], ...] = ()
    """Environment of both engines."""
    port_setting: str = ""
    """The flag or variable of a prefill engine with the port that the routing sidecar asks."""


_BOOTSTRAP_PORT: Final = "8998"
"""Default of vLLM, of SGLang and of the routing sidecar."""

CONNECTORS: Final[Mapping[Connector, ConnectorRow]] = {
    Connector.NIXL: ConnectorRow(
        "nixlv2",
        _vllm("NixlConnector", "kv_both"),
        _vllm("NixlConnector", "kv_both"),
        (
            {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", **_POD_IP},
            {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": "5557"},
        ),
    ),
    # Both engines read and write a store that the author names, and find its blocks by equal hashes.
    Connector.LMCACHE: ConnectorRow(
        "shared-storage",
        _vllm("LMCacheConnectorV1", "kv_both"),
        _vllm("LMCacheConnectorV1", "kv_both"),
        ({"name": "PYTHONHASHSEED", "value": "0"},),
    ),
    Connector.MOONCAKE: ConnectorRow(
        "mooncake",
        _vllm("MooncakeConnector", "kv_producer"),
        _vllm("MooncakeConnector", "kv_consumer"),
        port_setting="VLLM_MOONCAKE_BOOTSTRAP_PORT",
    ),
    Connector.SGLANG: ConnectorRow(
        "sglang",
        ("--disaggregation-mode=prefill", "--disaggregation-transfer-backend=nixl"),
        ("--disaggregation-mode=decode", "--disaggregation-transfer-backend=nixl"),
        port_setting="--disaggregation-bootstrap-port",
    ),
}


def chosen(replica: ModelReplica) -> Connector | None:
    """Return the connector that the author chose."""
    return replica.spec.serving.connector if replica.spec.serving else None


def row(replica: ModelReplica) -> ConnectorRow:
    """Return the connector of a replica in mode PrefillDecode; NIXL where none is chosen."""
    return CONNECTORS[chosen(replica) or Connector.NIXL]


def arguments(replica: ModelReplica, phase: Phase | None, container: Container) -> tuple[str, ...]:
    """Return the arguments that a container lacks; none unless a connector is chosen."""
    if phase is None or chosen(replica) is None:
        return ()
    wanted = row(replica).prefill if phase is Phase.PREFILL else row(replica).decode
    return tuple(text for text in wanted if flag(container, text.partition("=")[0]) is None)


def refusal(replica: ModelReplica, engine: PlacedEngine) -> Rejected | None:
    """Return why the arguments cannot be added to an engine; None if they can."""
    for member in engine.members:
        container = member.template.spec.engine
        lacks = arguments(replica, engine.phase, container)
        if lacks and has_script(container):
            return Rejected(
                Reason.UNSUPPORTED_TOPOLOGY,
                f'engine "{engine.name}": connector {chosen(replica)}',
                f"needs {' '.join(lacks)}, which cannot be added to a script",
                "write it there",
            )
        setting = row(replica).port_setting
        if setting and _value(container, setting) not in (None, _BOOTSTRAP_PORT):
            return Rejected(
                Reason.UNSUPPORTED_TOPOLOGY,
                f'engine "{engine.name}": the routing sidecar',
                f"asks port {_BOOTSTRAP_PORT} for the KV cache",
                f"remove {setting}",
            )
    return None


def _value(container: Container, setting: str) -> str | None:
    """Return the value of a flag or of a variable."""
    if setting.startswith("-"):
        return flag(container, setting)
    return next((variable.value or "" for variable in container.env if variable.name == setting), None)
