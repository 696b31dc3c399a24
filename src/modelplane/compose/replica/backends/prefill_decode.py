"""Mode PrefillDecode: additions to the pods of its two engines, and the connectors between them.

Requests go to a decode pod. Its routing sidecar has the replica's port; it has a prefill pod compute the
first half, and the engine gets the KV cache from there by a connector. So the decode engine listens on
another port. The image is the author's, and so are the flags of the transfer unless a connector is chosen.

Each row of connectors names its sources: the flags of vLLM 0.23.0 and SGLang 0.5.12
(``catalogue/engine_flags``), and those of the routing sidecar, llm-d-router v0.10.0
(``pkg/sidecar/proxy/options.go``).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.containers import ROUTING_SIDECAR as SIDECAR_NAME, Container
from modelplane.api.fields.pods.engines import ENGINE_PORT, Connector, Phase
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.rejected import Rejected
from modelplane.compose.added_containers import RESTRICTED, ROUTING_SIDECAR
from modelplane.compose.replica.backends.workload import HEALTH_PATH, Form, Workload, head
from modelplane.compose.replica.engine_command_lines import find_flag, has_script

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


def get_connector(replica: ModelReplica) -> Connector | None:
    """Return the connector that the author chose; None if the author chose none."""
    return replica.spec.serving.connector if replica.spec.serving else None


def get_row(replica: ModelReplica) -> ConnectorRow:
    """Return the connector of a replica in mode PrefillDecode; NIXL where none is chosen."""
    return CONNECTORS[get_connector(replica) or Connector.NIXL]


def list_arguments(replica: ModelReplica, phase: Phase | None, container: Container) -> tuple[str, ...]:
    """Return the arguments that a container lacks; none unless a connector is chosen."""
    if phase is None or get_connector(replica) is None:
        return ()
    wanted = get_row(replica).prefill if phase is Phase.PREFILL else get_row(replica).decode
    return tuple(text for text in wanted if find_flag(container, text.partition("=")[0]) is None)


def check_arguments(replica: ModelReplica, engine: PlacedEngine) -> Rejected | None:
    """Return why the arguments cannot be added to an engine; None if they can."""
    for member in engine.members:
        container = member.template.spec.engine
        lacks = list_arguments(replica, engine.phase, container)
        if lacks and has_script(container):
            return Rejected(
                Reason.UNSUPPORTED_TOPOLOGY,
                f'engine "{engine.name}": connector {get_connector(replica)}',
                f"needs {' '.join(lacks)}, which cannot be added to a script",
                "write it there",
            )
        setting = get_row(replica).port_setting
        variables = {variable.name: variable.value or "" for variable in container.env}
        given = find_flag(container, setting) if setting.startswith("-") else variables.get(setting)
        if given not in (None, _BOOTSTRAP_PORT):
            return Rejected(
                Reason.UNSUPPORTED_TOPOLOGY,
                f'engine "{engine.name}": the routing sidecar',
                f"requests the KV cache on port {_BOOTSTRAP_PORT}",
                f"remove {setting}",
            )
    return None


_DECODE_PORT = 8001
_PORT_FLAG = "--model-server-port"
"""The port of the engine behind a sidecar. Source: llm-d's router 0.10, pull request 2142."""
_UNTIL_0_8 = ("ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.9.0", "--vllm-port")
"""Image and flag that versions up to 0.8 wrote."""
_LARGEST_PORT = 65535


def choose_engine_port(engine: PlacedEngine) -> int | Rejected:
    """Return the port on which an engine listens, or why it cannot serve on the given port."""
    if engine.phase is not Phase.DECODE:
        return ENGINE_PORT
    given = find_flag(head(engine).template.spec.engine, "--port")
    if given is None:
        return _DECODE_PORT
    # int() of thousands of digits raises.
    is_number = given.isascii() and given.isdigit() and len(given) <= len(str(_LARGEST_PORT))
    if not (is_number and 0 < int(given) <= _LARGEST_PORT):
        return Rejected(
            Reason.UNSUPPORTED_TOPOLOGY,
            f'engine "{engine.name}": --port "{given}"',
            "is not a port number",
            "write a number",
        )
    if int(given) == ENGINE_PORT:
        return Rejected(
            Reason.UNSUPPORTED_TOPOLOGY,
            f'engine "{engine.name}": port {given} of a decode pod',
            "is used by the routing sidecar",
            f"use another port for the engine, such as --port={_DECODE_PORT}",
        )
    return int(given)


def build_pod_labels(workload: Workload) -> dict[str, str]:
    """Return the labels by which the endpoint picker distinguishes the phases."""
    if workload.phase is None:
        return {}
    return {labels.LLM_D_ROLE: workload.phase.lower(), labels.LLM_D_SERVING: "true"}


def build_environment(workload: Workload) -> list[dict[str, Any]]:
    """Return the variables with a pod's KV cache address. Every pod of a gang holds a part of the cache."""
    if workload.phase is None:
        return []
    return [dict(variable) for variable in get_row(workload.replica).variables]


def build_sidecar(workload: Workload) -> dict[str, Any] | None:
    """Return the routing sidecar of a decode pod.

    As a restartable init container it starts before the engine and stops after it, so that the last responses
    still pass. It has no startup probe: the probe would wait for the engine, which starts after the sidecar.
    """
    if workload.phase is not Phase.DECODE:
        return None
    image, port = _UNTIL_0_8 if workload.form <= Form.V0_8 else (ROUTING_SIDECAR.reference, _PORT_FLAG)
    return {
        "name": SIDECAR_NAME,
        "image": image,
        "restartPolicy": "Always",
        "args": [
            "--secure-proxy=false",
            f"--kv-connector={get_row(workload.replica).sidecar}",
            f"{port}={workload.port}",
        ],
        "ports": [{"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": HEALTH_PATH, "port": ENGINE_PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
        "livenessProbe": {"tcpSocket": {"port": ENGINE_PORT}, "periodSeconds": 10, "failureThreshold": 6},
        "securityContext": RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
