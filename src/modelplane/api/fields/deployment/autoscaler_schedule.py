"""Schedules of an InferenceAutoscaler: other bounds in windows of time."""

from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_LABEL, Rule, about

MOST_REPLICAS = 10_000
MOST_SCHEDULES = 8


class AutoscalerSchedule(Model):
    """Bounds of the number of replicas in windows of time."""

    __rules__ = (
        Rule(
            "has(self.minReplicas) || has(self.maxReplicas)",
            "a schedule without a bound changes nothing: give minReplicas or maxReplicas",
        ),
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas is more than maxReplicas: lower it, or raise maxReplicas",
        ),
    )

    name: Annotated[str, about("Name of the schedule.", max_length=63, pattern=DNS_LABEL)]
    cron: Annotated[
        str,
        about(
            "Times at which a window begins: minute, hour, day of the month, month and day of the week, as "
            "in a CronJob.",
            max_length=100,
            pattern=r"^[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/-]+){4}$",
        ),
    ]
    time_zone: Annotated[
        str,
        about(
            "Time zone of these times, by its name in the IANA database, such as Europe/Berlin.",
            min_length=1,
            max_length=64,
            pattern=r"^[A-Za-z][-A-Za-z0-9_+/]*$",
        ),
    ] = "Etc/UTC"
    duration_seconds: Annotated[int, about("Length of a window.", ge=60, le=604_800)]
    min_replicas: (
        Annotated[
            int,
            about(
                "Least number of replicas in a window, in place of spec.minReplicas.", ge=0, le=MOST_REPLICAS
            ),
        ]
        | None
    ) = None
    max_replicas: (
        Annotated[
            int,
            about("Most replicas in a window, in place of spec.maxReplicas.", ge=1, le=MOST_REPLICAS),
        ]
        | None
    ) = None
