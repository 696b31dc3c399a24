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
    """State of the preferred deployment in which a standby runs."""

    UNPLACED = "Unplaced"
    SATURATED = "Saturated"


class StandbyFor(Model):
    """The preferred deployment, and when this one runs in its place."""

    name: Annotated[
        str,
        about(
            "Preferred ModelDeployment of this namespace.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    when: Annotated[
        tuple[StandbyTrigger, ...],
        about(
            "States of the preferred deployment in which this one runs its replicas. Unplaced: it has fewer "
            "replicas than it asks for, for lack of capacity. Saturated: its InferenceAutoscaler needs more "
            "replicas than maxReplicas, or than have a place.",
            min_length=1,
            max_length=2,
            unique=True,
        ),
    ] = (StandbyTrigger.UNPLACED,)
    after_seconds: Annotated[
        int,
        about("Time for which the preferred one is Unplaced before this one runs.", ge=1, le=_DAY_S),
    ] = 120
    saturated_after_seconds: Annotated[
        int,
        about("Time for which the preferred one is Saturated before this one runs.", ge=1, le=_DAY_S),
    ] = 300
    return_after_seconds: Annotated[
        int,
        about(
            "Time for which all replicas of the preferred one serve before this one gives up its own.",
            ge=1,
            le=_DAY_S,
        ),
    ] = 600


class StandbyStatus(Model):
    """State of a standby. Its times count only while a controller watches."""

    preferred: Annotated[str, about("The preferred deployment that the times are about.")] = ""
    active: Annotated[bool, about("True while the standby runs its replicas.")] = False
    since: Annotated[dt.datetime, about("Time of the last change of active.")] | None = None
    trigger: (
        Annotated[StandbyTrigger, about("Reason for which it runs. Absent: it had replicas before.")] | None
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
                "Time since which all replicas of a deployment before this one in the order serve. Only "
                "while active."
            ),
        ]
        | None
    ) = None
