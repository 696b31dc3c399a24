"""Mutual TLS between the fleet's gateway and those of clusters: settings, rollout and names."""

import datetime as dt
import re
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

MOST_DRAIN_S = 7 * 24 * 3600
"""Longest time for which a former protocol stays open, in seconds."""


class MutualTLS(Model):
    """Mutual TLS between the gateway of the fleet and the gateway of the cluster."""

    drain_seconds: Annotated[
        int,
        about(
            "Time for which the previous protocol remains open for requests in progress, after "
            "the last endpoint has changed to the new one.",
            ge=60,
            le=MOST_DRAIN_S,
        ),
    ] = 6 * 3600


class GatewaySettings(Model):
    """Settings of the gateway on the cluster."""

    mutual_tls: (
        Annotated[
            MutualTLS,
            about(
                "Mutual TLS. The gateway accepts only requests from the gateway of the fleet, with "
                "certificates that Modelplane issues and renews. Default: plain HTTP from any client."
            ),
        ]
        | None
    ) = msgspec.field(name="mutualTLS", default=None)


class MutualTLSPhase(StrEnum):
    """Phase of the rollout of mutual TLS. The rollout moves one phase at a time."""

    PLAIN = "Plain"
    """The cluster accepts plain HTTP, and requests use it."""
    OFFERED = "Offered"
    """The cluster accepts both, and requests use plain HTTP."""
    USED = "Used"
    """The cluster accepts both, and requests use mutual TLS."""
    REQUIRED = "Required"
    """The cluster accepts mutual TLS, and requests use it."""


class MutualTLSStatus(Model):
    """Rollout of mutual TLS."""

    phase: Annotated[
        MutualTLSPhase,
        about(
            "Phase of the rollout. Offered: the gateway accepts both protocols, and requests use "
            "plain HTTP. Used: the gateway accepts both protocols, and requests use TLS. "
            "Required: the gateway accepts only TLS."
        ),
    ]
    draining_since: (
        Annotated[
            dt.datetime,
            about("Time since which no endpoint uses the protocol that will be closed."),
        ]
        | None
    ) = None


SERVER_DOMAIN = "clusters.modelplane.internal"
"""Domain of the names of clusters' gateways. It is in no DNS."""

SERVER_NAME = rf"^[0-9a-z-]{{1,63}}\.{re.escape(SERVER_DOMAIN)}$"


class EndpointMutualTLS(Model):
    """Mutual TLS to the gateway of an InferenceCluster."""

    server_name: Annotated[
        str,
        about(
            "Server name in the certificate of the cluster's gateway, which the certificate "
            "authority of the fleet issued.",
            min_length=1,
            max_length=128,
            pattern=SERVER_NAME,
        ),
    ]
