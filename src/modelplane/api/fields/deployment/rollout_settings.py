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
    """A percentage of the requests, and how long to observe it."""

    weight: Annotated[
        int,
        about(
            "Percentage of requests for the deployment that go to the new revision, in each "
            "ModelService that routes to the deployment.",
            ge=1,
            le=99,
        ),
    ]
    duration_seconds: Annotated[
        int,
        about(
            "Minimum time at this weight. The step takes longer until there are enough responses to decide.",
            ge=1,
            le=_LONGEST_S,
        ),
    ]


class CanaryLimits(Model):
    """Limits at which a canary is aborted, and the number of responses that a decision needs."""

    error_rate: Annotated[
        str,
        about(
            "Maximum percentage of errors (5xx, or no response) of the new revision. If exceeded, the "
            "canary is aborted, unless the old revision fails as often in the same time.",
            pattern=_RATE,
            max_length=6,
        ),
    ] = "5%"
    latency_ratio: (
        Annotated[
            str,
            about(
                "Maximum ratio of mean response times between the new and the old revision, such as "
                '"1.5". If exceeded, the canary is aborted. Default: response times are not compared.',
                pattern=_RATIO,
                max_length=5,
            ),
        ]
        | None
    ) = None
    min_requests: Annotated[
        int,
        about(
            "Minimum number of responses of each revision for a decision. With fewer responses, "
            "the step waits, and the canary is neither promoted nor aborted.",
            ge=1,
            le=1000000,
        ),
    ] = 100


class CanarySettings(Model):
    """Steps and limits of a canary."""

    steps: Annotated[
        tuple[CanaryStep, ...],
        about(
            "Steps, in order. After the last step, the rollout continues within its limits.",
            min_length=1,
            max_length=16,
        ),
    ]
    abort_on: Annotated[CanaryLimits, about("Limits at which the canary is aborted.")] = CanaryLimits()


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
            "Phase of the canary. Running: steps are in progress. Promoted: the rollout "
            "continues. Aborted: the new revision receives no requests."
        ),
    ]
    revision: Annotated[str, about("The new revision.")]
    stable_revision: Annotated[str, about("Revision of the other replicas.")] = ""
    step: Annotated[int, about("Number of the current step, starting at 1.", ge=1)] = 1
    weight: Annotated[int, about("Percentage of requests that go to the new revision.", ge=0, le=99)] = 0
    replicas: Annotated[int, about("Number of replicas of the new revision that the step needs.", ge=0)] = 0
    step_start_time: (
        Annotated[
            dt.datetime,
            about("Start of the current step. Absent until the replicas of the step serve."),
        ]
        | None
    ) = None
    abort_time: Annotated[dt.datetime, about("Time at which the canary was aborted.")] | None = None
    message: Annotated[str, about("Last counted responses of both revisions in the step.")] = ""


_PERCENT = r"^([0-9]|[1-9][0-9]|100)%$"
_NONE = "['0', '0%']"

Count: TypeAlias = (
    Annotated[int, about("A number.", ge=0, le=10000)] | Annotated[str, about("A share.", pattern=_PERCENT)]
)
"""A number of replicas, or a share of them such as ``25%``."""


class RolloutSettings(Model):
    """Limits of a rollout in the whole fleet."""

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
            "Maximum number of replicas that can be unavailable during an update, as a number or "
            "a percentage of replicas, rounded down. Replicas that are unavailable for another "
            "reason are included, and are updated immediately."
        ),
    ] = 1
    max_surge: Annotated[
        Count,
        about(
            "Maximum number of additional replicas during an update, as a number or a percentage "
            "of replicas, rounded up. Additional replicas use the new template, serve while "
            "other replicas restart, and are removed at the end."
        ),
    ] = 0
    paused: Annotated[
        bool,
        about("Whether to stop updating existing replicas. New replicas use the current template."),
    ] = False
    revision_history_limit: Annotated[
        int,
        about("Number of earlier revisions to keep, as ControllerRevisions.", ge=0, le=100),
    ] = 10
    progress_deadline_seconds: Annotated[
        int,
        about(
            "Time without progress after which condition Progressing becomes False. Choose a "
            "time longer than a cold start.",
            ge=1,
            le=604800,
        ),
    ] = 1200
    canary: (
        Annotated[
            CanarySettings,
            about(
                "Canary steps: the new revision receives a part of the requests before the other "
                "replicas are updated. Default: no canary."
            ),
        ]
        | None
    ) = None


class RolloutStatus(Model):
    """Progress of the rollout of the current revision."""

    revision: Annotated[
        str, about("Hash of the current template, which is the value of the label modelplane.ai/revision.")
    ]
    updated_replicas: Annotated[
        int, about("Number of replicas with the current template, without additional replicas.", ge=0)
    ] = 0
    available_replicas: Annotated[
        int, about("Number of serving replicas with the current template, without additional replicas.", ge=0)
    ] = 0
    surge_replicas: Annotated[int, about("Number of additional replicas during the update.", ge=0)] = 0
    last_progress_time: (
        Annotated[dt.datetime, about("Time of the last progress. Absent while paused.")] | None
    ) = None
    canary: Annotated[CanaryStatus, about("State of the canary. Absent without a canary.")] | None = None
