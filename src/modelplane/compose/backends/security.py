"""What the containers that Modelplane adds may do: nothing beyond what they need.

An engine's image is its author's choice, and many run as root; the images here do not.
"""

from typing import Any

_NOBODY = 65532
"""The user of the images that are added, by number, so that the kubelet can see that it is not root."""

RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": _NOBODY,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The security context of such a container: Kubernetes' own Pod Security Standard, restricted."""
