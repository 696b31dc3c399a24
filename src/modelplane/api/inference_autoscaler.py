"""InferenceAutoscaler: adjusts the number of replicas of a ModelDeployment to match its request load."""

import datetime as dt
from typing import Annotated

from modelplane.api.meta import LocalReference, Model, ObjectMeta, Status
from modelplane.api.schema.fields import DNS_LABEL, MOMENT, Rule, about

MOST_REPLICAS = 10_000
MOST_SCHEDULES = 8


class AutoscalerSchedule(Model):
    """Bounds for the number of replicas during recurring time windows."""

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
            "Start times of the window, in the format of a CronJob: minute, hour, day of the "
            "month, month, and day of the week.",
            max_length=100,
            pattern=r"^[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/-]+){4}$",
        ),
    ]
    time_zone: Annotated[
        str,
        about(
            "Time zone of the start times, as a name in the IANA database, such as Europe/Berlin.",
            min_length=1,
            max_length=64,
            pattern=r"^[A-Za-z][-A-Za-z0-9_+/]*$",
        ),
    ] = "Etc/UTC"
    duration_seconds: Annotated[int, about("Length of a window, in seconds.", ge=60, le=604_800)]
    min_replicas: (
        Annotated[
            int,
            about(
                "Minimum number of replicas during a window. Overrides spec.minReplicas.",
                ge=0,
                le=MOST_REPLICAS,
            ),
        ]
        | None
    ) = None
    max_replicas: (
        Annotated[
            int,
            about(
                "Maximum number of replicas during a window. Overrides spec.maxReplicas.",
                ge=1,
                le=MOST_REPLICAS,
            ),
        ]
        | None
    ) = None


_DAY_S = 86_400


class AutoscalerTargets(Model):
    """Target load of one replica. If you set several targets, the one that needs the most replicas
    applies."""

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
                "Target number of requests per replica, in progress or waiting at the gateway. "
                "Choose how many concurrent requests one replica serves at acceptable latency.",
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
                "Target number of response tokens per second and replica. The tokens of a "
                "ModelService count for each deployment that the service selects.",
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
                "Target for the 95th percentile of the time to first token of streams, in "
                "milliseconds from the end of the request. If the target is missed in two windows of "
                "30 seconds and no replica is starting, the autoscaler adds one replica.",
                ge=10,
                le=60_000,
            ),
        ]
        | None
    ) = None


class AutoscalerWindows(Model):
    """Waiting times before scaling down. Scaling up doesn't wait."""

    scale_down_seconds: Annotated[
        int,
        about(
            "How long fewer replicas must have been enough before the number of replicas is reduced.",
            ge=30,
            le=_DAY_S,
        ),
    ] = 600
    scale_to_zero_seconds: Annotated[
        int,
        about(
            "How long there must have been no request before the last replica is removed. Only "
            "with minReplicas 0.",
            ge=5,
            le=_DAY_S,
        ),
    ] = 900


class InferenceAutoscalerSpec(Model):
    """The deployment to scale, bounds, and targets."""

    __rules__ = (
        Rule(
            "self.minReplicas <= self.maxReplicas",
            "minReplicas is more than maxReplicas: lower it, or raise maxReplicas",
        ),
        Rule(
            "!has(self.schedules) || self.schedules.all(each, (has(each.minReplicas) ? each.minReplicas : "
            "self.minReplicas) <= (has(each.maxReplicas) ? each.maxReplicas : self.maxReplicas))",
            "in the windows of a schedule, minReplicas is more than maxReplicas: give the schedule both",
        ),
    )

    deployment_ref: Annotated[
        LocalReference,
        about("ModelDeployment in this namespace. Nothing else should write its spec.replicas."),
    ]
    min_replicas: Annotated[
        int,
        about(
            "Minimum number of replicas. With 0, a request starts the first replica if the "
            "ModelService has spec.hold.",
            ge=0,
            le=MOST_REPLICAS,
        ),
    ] = 1
    max_replicas: Annotated[int, about("Maximum number of replicas.", ge=1, le=MOST_REPLICAS)]
    targets: Annotated[
        AutoscalerTargets,
        about(
            "Target load of one replica. If you set several targets, the one that needs the most "
            "replicas applies."
        ),
    ]
    windows: Annotated[AutoscalerWindows, about("How long to wait before scaling down.")] = (
        AutoscalerWindows()
    )
    schedules: Annotated[
        tuple[AutoscalerSchedule, ...],
        about(
            "Bounds during time windows. If several windows are open, the largest minReplicas "
            "and the largest maxReplicas apply.",
            max_length=MOST_SCHEDULES,
            keys=("name",),
        ),
    ] = ()
    paused: Annotated[bool, about("Whether to stop changing the number of replicas.")] = False


class AutoscaledReplicas(Model):
    """Numbers of replicas."""

    desired: Annotated[int, about("Number of replicas that the autoscaler requests.", ge=0)]
    ready: Annotated[int, about("Number of serving replicas.", ge=0)]


class AutoscalerLoad(Model):
    """Load that the gateway measured."""

    time: Annotated[dt.datetime, about("Time of the measurement."), MOMENT]
    in_flight: Annotated[int, about("Number of requests in progress.", ge=0)]
    held: Annotated[int, about("Number of requests that wait at the gateway.", ge=0)]
    tokens_per_second: Annotated[int, about("Response tokens per second, averaged over one minute.", ge=0)]
    time_to_first_token_milliseconds: (
        Annotated[
            int,
            about(
                "95th percentile of the time to first token of the streams in one minute, as the "
                "upper bound of a histogram bucket. Absent without streams, and above 60 seconds.",
                ge=0,
            ),
        ]
        | None
    ) = None


class InferenceAutoscalerStatus(Status):
    """The last decision, and the measurements behind it."""

    replicas: Annotated[AutoscaledReplicas, about("Numbers of replicas.")] | None = None
    decision: Annotated[str, about("Reason for the last change.", max_length=1024)] = ""
    open_schedules: Annotated[
        tuple[str, ...],
        about("Schedules with an open window.", max_length=MOST_SCHEDULES, atomic=True),
    ] = ()
    last_scale_time: Annotated[dt.datetime, about("Time of the last change."), MOMENT] | None = None
    cold_start_seconds: (
        Annotated[
            int,
            about(
                "Duration of the last start from zero until the first replica was ready, in seconds.", ge=0
            ),
        ]
        | None
    ) = None
    load: (
        Annotated[AutoscalerLoad, about("Load that the gateway measured, updated at most every 30 seconds.")]
        | None
    ) = None


class InferenceAutoscaler(Model):
    """Scales a ModelDeployment to match the requests at the gateway. It can scale to zero."""

    metadata: ObjectMeta
    spec: Annotated[InferenceAutoscalerSpec, about("The deployment to scale, bounds, and targets.")]
    status: Annotated[InferenceAutoscalerStatus, about("The last decision.")] = InferenceAutoscalerStatus()
