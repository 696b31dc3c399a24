"""Security contexts: of engines, and of the containers that Modelplane adds.

The author chooses the engine's image, and many run as root; the added images do not.
"""

from typing import Any

_NOBODY = 65532
"""The user of the added images, as a number, so that the kubelet can verify that it is not root."""

RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": _NOBODY,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The security context of the added containers: Kubernetes' Pod Security Standard "restricted"."""

POD: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
}
"""Fields of an engine's pod: an engine asks no API server."""

CONTAINER: dict[str, Any] = {"allowPrivilegeEscalation": False}
"""The security context of an engine: with ``POD``, Kubernetes' Pod Security Standard "baseline" and more."""
