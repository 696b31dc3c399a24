"""Containers that Modelplane adds to inference clusters beside engines: images and security context."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Image:
    """An image, and its purpose."""

    reference: str
    purpose: str


HYDRATION = Image("docker.io/library/python:3.13.9-slim", "Job that fills a ModelCache")
ENDPOINT_PICKER = Image("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0", "endpoint picker of a replica")
ROUTING_SIDECAR = Image("ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0", "routing sidecar of decode pods")

IMAGES = (HYDRATION, ENDPOINT_PICKER, ROUTING_SIDECAR)
"""Every such image."""

RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 65532,  # a number, so that the kubelet can verify that it is not root
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The security context of the added containers: Kubernetes' Pod Security Standard "restricted"."""
