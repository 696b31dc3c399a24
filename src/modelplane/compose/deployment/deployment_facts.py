"""Facts that the composition of a ModelDeployment reads beside objects.

Apart from the other facts, because commands that explain and plan deployments read only these.
"""

from datetime import datetime
from typing import TypeAlias

import msgspec

from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.composition import Request
from modelplane.deciders.canary import Observed
from modelplane.deciders.cluster_health import Watched


class DeploymentFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelDeployment reads beside objects."""

    canary: Observed | None = None
    """Last decision on its canary; None where nothing counts answers."""
    watched: Watched | None = None
    """Failover as it concerns the deployment; None where nothing watches clusters: under Crossplane."""
    watching_since: datetime | None = None
    """Time since which the caller has watched without a break; None offline."""
    observes_capacity: bool = False
    """True if the caller watches the nodes and devices of clusters: the controllers."""


DeploymentRequest: TypeAlias = Request[ModelDeployment, DeploymentFacts]
