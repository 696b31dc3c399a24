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
    """Mutual TLS between the fleet's gateway and that of the cluster."""

    drain_seconds: Annotated[
        int,
        about(
            "Time, after the last endpoint has changed, for which the former protocol stays open, for "
            "requests in progress.",
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
                "The gateway accepts only requests of the fleet's gateway, by TLS with certificates that "
                "Modelplane issues and renews. Absent: plain HTTP from everywhere."
            ),
        ]
        | None
    ) = msgspec.field(name="mutualTLS", default=None)


class MutualTLSPhase(StrEnum):
    """Phase of the rollout of mutual TLS. It advances and goes back by one at a time."""

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
            "Offered: the gateway accepts both protocols, and requests use plain HTTP. Used: both, and "
            "requests use TLS. Required: TLS only."
        ),
    ]
    draining_since: (
        Annotated[
            dt.datetime,
            about("Time since which no endpoint uses the protocol that is to be closed."),
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
            "Name in the certificate of the cluster's gateway, of the fleet's own certificate authority.",
            min_length=1,
            max_length=128,
            pattern=SERVER_NAME,
        ),
    ]
