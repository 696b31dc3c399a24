"""Mode PrefillDecode: additions to the pods of its two engines.

Requests go to a decode pod. Its routing sidecar has the replica's port; it has a prefill pod compute the
first half, and the engine gets the KV cache from there by a connector. So the decode engine listens on
another port. The image is the author's, and so are the flags of the transfer unless a connector is chosen.
"""

from typing import Any

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.containers import ROUTING_SIDECAR as SIDECAR_NAME
from modelplane.api.fields.pods.engines import ENGINE_PORT, Phase
from modelplane.api.model_replica import PlacedEngine
from modelplane.api.rejected import Rejected
from modelplane.compose.added_images import ROUTING_SIDECAR
from modelplane.compose.replica.backends import connectors
from modelplane.compose.replica.backends.workload import HEALTH_PATH, Form, Workload, head
from modelplane.compose.replica.engine_flags import flag
from modelplane.compose.replica.pods.security import RESTRICTED

_DECODE_PORT = 8001
_PORT_FLAG = "--model-server-port"
"""The port of the engine behind a sidecar. Source: llm-d's router 0.10, pull request 2142."""
_UNTIL_0_8 = ("ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.9.0", "--vllm-port")
"""Image and flag that versions up to 0.8 wrote."""
_MOST = 65535


def engine_port(engine: PlacedEngine) -> int | Rejected:
    """Return the port on which an engine listens, or why it cannot serve on the given port."""
    if engine.phase is not Phase.DECODE:
        return ENGINE_PORT
    given = flag(head(engine).template.spec.engine, "--port")
    if given is None:
        return _DECODE_PORT
    # int() of thousands of digits raises.
    is_number = given.isascii() and given.isdigit() and len(given) <= len(str(_MOST))
    if not (is_number and 0 < int(given) <= _MOST):
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
            "is the routing sidecar's",
            f"give the engine another, such as --port={_DECODE_PORT}",
        )
    return int(given)


def pod_labels(workload: Workload) -> dict[str, str]:
    """Return the labels by which the endpoint picker distinguishes the phases."""
    if workload.phase is None:
        return {}
    return {labels.LLM_D_ROLE: workload.phase.lower(), labels.LLM_D_SERVING: "true"}


def environment(workload: Workload) -> list[dict[str, Any]]:
    """Return the variables with a pod's KV cache address. Every pod of a gang holds a part of the cache."""
    if workload.phase is None:
        return []
    return [dict(variable) for variable in connectors.row(workload.replica).variables]


def sidecar(workload: Workload) -> dict[str, Any] | None:
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
            f"--kv-connector={connectors.row(workload.replica).sidecar}",
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
