"""InferenceAutoscaler: adjusts the number of replicas of a ModelDeployment to match its request load."""

import datetime as dt
from typing import Annotated

from msgspec import Meta

from modelplane.api.meta import LocalReference, Model, ObjectMeta, Status
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
            about(
                "Maximum number of replicas in a window, in place of spec.maxReplicas.",
                ge=1,
                le=MOST_REPLICAS,
            ),
        ]
        | None
    ) = None


_DAY_S = 86_400
_MOMENT = Meta(extra_json_schema={"maxLength": 35})
"""A time with nine digits of a second and a zone has 35 characters."""


class AutoscalerTargets(Model):
    """Load of one replica. The target that needs the most replicas decides."""

    __rules__ = (
        Rule(
            "has(self.requestsPerReplica) || has(self.tokensPerSecondPerReplica)",
            "a target of load is required: give requestsPerReplica or tokensPerSecondPerReplica",
        ),
    )

    requests_per_replica: (
        Annotated[
            int,
            about(
                "Requests in progress and held, for each replica: those that an engine answers at the same "
                "time at the speed that users should have.",
                ge=1,
                le=100_000,
            ),
        ]
        | None
    ) = None
    tokens_per_second_per_replica: (
        Annotated[
            int,
            about(
                "Tokens of answers per second, for each replica. The tokens of a service count for each "
                "deployment that it selects.",
                ge=1,
                le=10_000_000,
            ),
        ]
        | None
    ) = None
    time_to_first_token_milliseconds: (
        Annotated[
            int,
            about(
                "Goal for the time to the first token of 95 in 100 streams, from the end of a request, in "
                "milliseconds. While it is missed in two windows of 30 seconds and no replica is starting, "
                "one more replica is needed.",
                ge=10,
                le=60_000,
            ),
        ]
        | None
    ) = None


class AutoscalerWindows(Model):
    """Times of steps down. Steps up have none."""

    scale_down_seconds: Annotated[
        int,
        about(
            "Time in which fewer replicas would have done, before there are fewer.",
            ge=30,
            le=_DAY_S,
        ),
    ] = 600
    scale_to_zero_seconds: Annotated[
        int,
        about(
            "Time without a request before the last replica is given up, with minReplicas 0.",
            ge=5,
            le=_DAY_S,
        ),
    ] = 900


class InferenceAutoscalerSpec(Model):
    """The deployment, its bounds and its targets."""

    __rules__ = (
        Rule(
            "self.minReplicas <= self.maxReplicas",
            "minReplicas is more than maxReplicas: lower it, or raise maxReplicas",
        ),
        Rule(
            "!has(self.schedules) || self.schedules.all(each, "
            "(has(each.minReplicas) ? each.minReplicas : self.minReplicas) <= "
            "(has(each.maxReplicas) ? each.maxReplicas : self.maxReplicas))",
            "in the windows of a schedule, minReplicas is more than maxReplicas: give the schedule both",
        ),
    )

    deployment_ref: Annotated[
        LocalReference,
        about("ModelDeployment of this namespace. Nothing else should write its spec.replicas."),
    ]
    min_replicas: Annotated[
        int,
        about(
            "Least number of replicas. With 0, a request starts the first one, if the ModelService has "
            "spec.hold.",
            ge=0,
            le=MOST_REPLICAS,
        ),
    ] = 1
    max_replicas: Annotated[int, about("Maximum number of replicas.", ge=1, le=MOST_REPLICAS)]
    targets: Annotated[
        AutoscalerTargets,
        about("Load of one replica. Of several targets, that which needs the most replicas decides."),
    ]
    windows: Annotated[AutoscalerWindows, about("Times of steps down.")] = AutoscalerWindows()
    schedules: Annotated[
        tuple[AutoscalerSchedule, ...],
        about(
            "Bounds in windows of time. Of several open ones, the largest minReplicas and the largest "
            "maxReplicas count.",
            max_length=MOST_SCHEDULES,
            keys=("name",),
        ),
    ] = ()
    paused: Annotated[bool, about("True to leave the number of replicas as it is.")] = False


class AutoscaledReplicas(Model):
    """Numbers of replicas."""

    desired: Annotated[int, about("Replicas that the autoscaler asks for.", ge=0)]
    ready: Annotated[int, about("Replicas that serve.", ge=0)]


class AutoscalerLoad(Model):
    """Counts of the gateway at a time."""

    time: Annotated[dt.datetime, about("Time of the counts."), _MOMENT]
    in_flight: Annotated[int, about("Requests in progress.", ge=0)]
    held: Annotated[int, about("Requests that wait at the gateway.", ge=0)]
    tokens_per_second: Annotated[int, about("Tokens of answers per second, over a minute.", ge=0)]
    time_to_first_token_milliseconds: (
        Annotated[
            int,
            about(
                "Time in which 95 in 100 streams of a minute had their first token: a bucket's bound. "
                "Absent without a stream, and above 60 seconds.",
                ge=0,
            ),
        ]
        | None
    ) = None


class InferenceAutoscalerStatus(Status):
    """The last decision, and what it was made from."""

    replicas: Annotated[AutoscaledReplicas, about("Numbers of replicas.")] | None = None
    decision: Annotated[str, about("Reason of the last change.", max_length=1024)] = ""
    open_schedules: Annotated[
        tuple[str, ...],
        about("Schedules whose window is open.", max_length=MOST_SCHEDULES, atomic=True),
    ] = ()
    last_scale_time: Annotated[dt.datetime, about("Time of the last change."), _MOMENT] | None = None
    cold_start_seconds: (
        Annotated[int, about("Time from the last start from zero until the first replica was ready.", ge=0)]
        | None
    ) = None
    load: (
        Annotated[AutoscalerLoad, about("Counts of the gateway, written every 30 seconds or later.")] | None
    ) = None


class InferenceAutoscaler(Model):
    """Scales a ModelDeployment by the requests that the gateway counts, also to zero."""

    metadata: ObjectMeta
    spec: Annotated[InferenceAutoscalerSpec, about("The deployment, its bounds and its targets.")]
    status: Annotated[InferenceAutoscalerStatus, about("The last decision.")] = InferenceAutoscalerStatus()
