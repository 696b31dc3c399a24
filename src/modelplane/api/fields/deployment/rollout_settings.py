"""Rollout of an edit to the replicas of a ModelDeployment: its limits, and its progress.

The names are those of Deployments (apps/v1) where the meaning is the same.
"""

import datetime as dt
from typing import Annotated, TypeAlias

from modelplane.api.fields.deployment.canary_settings import CanarySettings, CanaryStatus
from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about

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
            "Most replicas that may be unavailable during an update, as a number or a percentage of "
            "replicas, rounded down. Replicas that do not serve for another reason count. A replica that "
            "does not serve is updated at once."
        ),
    ] = 1
    max_surge: Annotated[
        Count,
        about(
            "Most replicas that are placed in addition during an update, as a number or a percentage of "
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
