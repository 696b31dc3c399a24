"""Options of an installation; everything else is the same everywhere.

The defaults are those of ``modelplane install`` and of the chart. A chart has placeholders for values, so a
number may be a text here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from modelplane import __version__

CREDENTIAL_LIFETIME = "720h"
"""30 days."""

IS_PUBLISHED: Final = False
"""True once a release has pushed its image, which `modelplane install` then runs by default."""

Number = int | str
Block = Mapping[str, object] | str


class ServiceType(StrEnum):
    """Type of the gateway's Service (``Service.spec.type``)."""

    LOAD_BALANCER = "LoadBalancer"
    NODE_PORT = "NodePort"
    CLUSTER_IP = "ClusterIP"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an installation."""

    image: str = f"ghcr.io/modelplane/modelplane:{__version__}"
    controllers: Number = 2
    gateways: Number = 2
    gateway_service_type: str = ServiceType.LOAD_BALANCER
    gateway_annotations: Block = field(default_factory=dict)
    """Annotations of the gateway's Service, for example for an internal load balancer."""
    team_namespaces: tuple[str, ...] = ()
    """Namespaces whose Secrets and ConfigMaps may be read for models; all if empty."""
    credential_lifetime: str = CREDENTIAL_LIFETIME
    """Lifetime of the tokens that the controllers request from clusters; one may grant less."""
    network_policy: bool = True
    monitoring_namespaces: tuple[str, ...] | str = ("monitoring",)
    """Namespaces whose pods may read the metrics."""
    service_monitor: bool = False
    controller_resources: Block = field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "256Mi"}}
    )
    envoy_resources: Block = field(
        default_factory=lambda: {
            "requests": {"cpu": "250m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        }
    )
    gateway_resources: Block = field(default_factory=lambda: {"requests": {"cpu": "50m", "memory": "128Mi"}})
