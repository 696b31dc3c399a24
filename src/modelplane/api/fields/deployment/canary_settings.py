"""Canary of a rollout: a part of a deployment's requests goes to the new revision before the rest follows."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

_LONGEST_S = 604800
_RATE = r"^(([0-9]|[1-9][0-9])(\.[0-9]{1,2})?|100)%$"
_RATIO = r"^[1-9][0-9]?(\.[0-9]{1,2})?$"


class CanaryStep(Model):
    """A share of the requests, and the time for which it is observed."""

    weight: Annotated[
        int,
        about(
            "Percentage of the deployment's requests that the new revision gets, in each ModelService that "
            "routes to it.",
            ge=1,
            le=99,
        ),
    ]
    duration_seconds: Annotated[
        int,
        about(
            "Least time at this weight. The step lasts longer until there are enough answers to decide.",
            ge=1,
            le=_LONGEST_S,
        ),
    ]


class CanaryLimits(Model):
    """Limits beyond which a canary is aborted, and the number of answers that a decision needs."""

    error_rate: Annotated[
        str,
        about(
            "Percentage of the new revision's answers that may be errors (5xx, or no answer). More abort the "
            "canary, unless the old revision fails as much in the same time.",
            pattern=_RATE,
            max_length=6,
        ),
    ] = "5%"
    latency_ratio: (
        Annotated[
            str,
            about(
                'Ratio such as "1.5" of the mean time to a complete answer, of the new revision to the old '
                "one in the same time, that is not exceeded. Absent: times are not compared.",
                pattern=_RATIO,
                max_length=5,
            ),
        ]
        | None
    ) = None
    min_requests: Annotated[
        int,
        about(
            "Answers of a revision from which it is judged. With fewer, the step waits: the canary is "
            "neither promoted nor aborted.",
            ge=1,
            le=1000000,
        ),
    ] = 100


class CanarySettings(Model):
    """Steps of a canary, and its limits."""

    steps: Annotated[
        tuple[CanaryStep, ...],
        about(
            "Shares of the requests, one after the other. After the last, the rollout goes on within its "
            "limits.",
            min_length=1,
            max_length=16,
        ),
    ]
    abort_on: Annotated[CanaryLimits, about("Limits beyond which the canary is aborted.")] = CanaryLimits()


class CanaryPhase(StrEnum):
    """State of a canary."""

    RUNNING = "Running"
    PROMOTED = "Promoted"
    ABORTED = "Aborted"


class CanaryStatus(Model):
    """State of the canary of the current revision."""

    phase: Annotated[
        CanaryPhase,
        about(
            "Running: its steps are in progress. Promoted: the rollout goes on. Aborted: the new revision "
            "gets no requests."
        ),
    ]
    revision: Annotated[str, about("Revision that is tried.")]
    stable_revision: Annotated[str, about("Revision that the other replicas have.")] = ""
    step: Annotated[int, about("Present step, from 1.", ge=1)] = 1
    weight: Annotated[int, about("Percentage of the requests that the new revision gets.", ge=0, le=99)] = 0
    replicas: Annotated[int, about("Replicas of the new revision that the step needs.", ge=0)] = 0
    step_start_time: (
        Annotated[
            dt.datetime,
            about("Time from which the present step counts. Absent until its replicas serve."),
        ]
        | None
    ) = None
    abort_time: Annotated[dt.datetime, about("Time at which it was aborted.")] | None = None
    message: Annotated[str, about("Answers of both revisions in the step, as last counted.")] = ""
