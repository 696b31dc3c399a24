"""Standby: a ModelDeployment that runs replicas only while another one cannot."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, about

_DAY_S = 86_400

MOST_PREFERRED = 8
"""Deployments that a standby may have before it in the order."""


class StandbyTrigger(StrEnum):
    """State of the preferred deployment that starts a standby."""

    UNPLACED = "Unplaced"
    SATURATED = "Saturated"


class StandbyFor(Model):
    """The preferred deployment, and when the standby runs instead."""

    name: Annotated[
        str,
        about(
            "Name of the preferred ModelDeployment in this namespace.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    when: Annotated[
        tuple[StandbyTrigger, ...],
        about(
            "States of the preferred deployment that start the standby. Unplaced: some replicas "
            "don't fit for lack of capacity. Saturated: the InferenceAutoscaler needs more "
            "replicas than maxReplicas allows or than fit.",
            min_length=1,
            max_length=2,
            unique=True,
        ),
    ] = (StandbyTrigger.UNPLACED,)
    after_seconds: Annotated[
        int,
        about(
            "How long the preferred deployment must be Unplaced before the standby starts.", ge=1, le=_DAY_S
        ),
    ] = 120
    saturated_after_seconds: Annotated[
        int,
        about(
            "How long the preferred deployment must be Saturated before the standby starts.", ge=1, le=_DAY_S
        ),
    ] = 300
    return_after_seconds: Annotated[
        int,
        about(
            "How long all replicas of the preferred deployment must serve before the standby stops.",
            ge=1,
            le=_DAY_S,
        ),
    ] = 600


class StandbyStatus(Model):
    """State of a standby. Only time in which a controller is running counts."""

    preferred: Annotated[str, about("The preferred deployment that these times apply to.")] = ""
    active: Annotated[bool, about("Whether the standby is running replicas.")] = False
    since: Annotated[dt.datetime, about("Time of the last change of active.")] | None = None
    trigger: (
        Annotated[StandbyTrigger, about("Why the standby started. Absent if it had replicas before.")] | None
    ) = None
    unplaced_since: (
        Annotated[dt.datetime, about("Time since which the preferred deployment is Unplaced.")] | None
    ) = None
    saturated_since: (
        Annotated[dt.datetime, about("Time since which the preferred deployment is Saturated.")] | None
    ) = None
    served_since: (
        Annotated[
            dt.datetime,
            about(
                "Time since which all replicas of a preferred deployment serve. Present only while "
                "the standby is active."
            ),
        ]
        | None
    ) = None
