"""Rollout of an edit to the replicas of a ModelDeployment: its limits, its canary, and its progress.

The names are those of Deployments (apps/v1) where the meaning is the same.
"""

import datetime as dt
from enum import StrEnum
from typing import Annotated, TypeAlias

from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about

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


_PERCENT = r"^([0-9]|[1-9][0-9]|100)%$"
_NONE = "['0', '0%']"

Count: TypeAlias = (
    Annotated[int, about("A number.", ge=0, le=10000)] | Annotated[str, about("A share.", pattern=_PERCENT)]
)
"""A number of replicas, or a share of them such as ``25%``."""


class RolloutSettings(Model):
    """Limits of a rollout, over the whole fleet."""

    __rules__ = (
        Rule(
            f"!(string(self.maxUnavailable) in {_NONE}) "
            f"|| (has(self.maxSurge) && !(string(self.maxSurge) in {_NONE}))",
            "maxUnavailable and maxSurge must not both be zero: no replica could be updated",
        ),
    )

    max_unavailable: Annotated[
        Count,
        about(
            "Maximum number of replicas that can be unavailable during an update, as a number or a "
            "percentage of replicas, rounded down. Replicas that do not serve for another reason "
            "count. A replica that does not serve is updated at once."
        ),
    ] = 1
    max_surge: Annotated[
        Count,
        about(
            "Maximum number of additional replicas during an update, as a number or a percentage of "
            "replicas, rounded up. They have the new template, stand in for those that restart, and are "
            "removed at the end."
        ),
    ] = 0
    paused: Annotated[
        bool,
        about(
            "True to update no existing replica. Replicas that are placed meanwhile get the current template."
        ),
    ] = False
    revision_history_limit: Annotated[
        int,
        about("Number of earlier revisions to keep, each as a ControllerRevision.", ge=0, le=100),
    ] = 10
    progress_deadline_seconds: Annotated[
        int,
        about(
            "Time without progress after which the condition Progressing is False. Longer than a cold start.",
            ge=1,
            le=604800,
        ),
    ] = 1200
    canary: (
        Annotated[
            CanarySettings,
            about(
                "Steps in which the new revision gets a part of the requests before the other replicas are "
                "updated. Absent: none."
            ),
        ]
        | None
    ) = None


class RolloutStatus(Model):
    """Progress of the rollout of the current revision."""

    revision: Annotated[str, about("Hash of the current template: the label modelplane.ai/revision.")]
    updated_replicas: Annotated[
        int, about("Replicas that have the current template, surge replicas not counted.", ge=0)
    ] = 0
    available_replicas: Annotated[
        int, about("Replicas that have the current template and serve, surge replicas not counted.", ge=0)
    ] = 0
    surge_replicas: Annotated[int, about("Replicas that are placed in addition during the update.", ge=0)] = 0
    last_progress_time: (
        Annotated[dt.datetime, about("Time of the last progress. Absent while paused.")] | None
    ) = None
    canary: Annotated[CanaryStatus, about("State of the canary. Absent: there is none.")] | None = None
