"""Definitions of all metrics, by exporting program.

The metrics and the reference page are made from this table, so a metric without a row is not exported. Names
and units follow Prometheus' conventions; metrics of controllers and queues have controller-runtime's names.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple


class Program(StrEnum):
    """A program that exports metrics."""

    CONTROLLER = "controller"
    FUNCTION = "function"
    GATEWAY = "gateway"


class Type(StrEnum):
    """The types of Prometheus that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


EVERYONE = frozenset(Program)
_CONTROLLER = frozenset({Program.CONTROLLER})
_FUNCTION = frozenset({Program.FUNCTION})
_GATEWAY = frozenset({Program.GATEWAY})

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: from a reconcile that finds nothing to do to one that waits for a slow cluster."""

_UNTIL_A_TOKEN = (
    *(0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0),
)
"""Seconds, in the buckets of the gateway module; a test compares them."""


class Result(StrEnum):
    """Result of a reconcile, or of a request from Crossplane."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    """Done, and requeued for later."""
    RETRY = "retry"
    """A read or write failed and is retried."""
    FATAL = "fatal"
    """Answered with a fatal result."""
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    An ``observed`` metric is read at scrape time, from the objects or from Envoy, so deleted objects have no
    samples. Others count events.
    """

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    programs: frozenset[Program] = _CONTROLLER
    observed: bool = False
    buckets: tuple[float, ...] = ()


class Sample(NamedTuple):
    """One value of one metric."""

    metric: Metric
    labels: tuple[str, ...]
    value: float
    bucket: str = ""
    """Of a histogram: the bound of its bucket, whose value has no other bucket's, or ``SUM``."""


SUM = "sum"

LABELS = {
    "autoscaler": "Name of an InferenceAutoscaler: one value per autoscaler",
    "class": "`1xx` to `5xx`: the first digit of the answer's status",
    "cluster": "Name of an InferenceCluster: one value per cluster of the fleet",
    "code": "Code of an error of the gateway module: one value per code",
    "deployment": "Name of a ModelDeployment: one value per deployment",
    "device": "Name of a device entry of the pool's InferenceClass: 16 at most; `nodes` where nodes are lost",
    "endpoint": "ModelEndpoint, as `NAMESPACE/NAME`, or `held/NAMESPACE/NAME` for requests that a service "
    "has held: one value per endpoint",
    "inference_class": "Name of an InferenceClass that a DeviceQuota limits: 32 at most for a quota",
    "kind": "Kind that Modelplane reconciles, or `other`: one value per kind. Of tokens: `prompt` or "
    "`completion`",
    "namespace": "Namespace of a ModelDeployment",
    "pool": "Name of a node pool of the cluster",
    "problem": "Problem of a cluster's capacity: 3 values",
    "queue": "`decisions` (ModelDeployments, one at a time) or `work` (everything else)",
    "quota": "Name of a DeviceQuota: one value per quota",
    "ready": "`true`, `false` or `unknown`: the status of the object's Ready condition",
    "reason": "Reason of the deployment's ReplicasScheduled condition, or `Unknown` while it has none. Of "
    "lost capacity: its cause",
    "replica": "Name of a ModelReplica that has unhealthy devices",
    "result": "How it ended: see the metric",
    "secret": "Name of a Secret with a certificate of the gateway: 16 at most",
    "service": "ModelService, as `NAMESPACE/NAME`: one value per service that answered since Envoy started",
    "state": "What is counted: see the metric",
    "version": "Version of Modelplane: one value",
}
"""Each label, with the bound on the number of its values."""

_of_controller = partial(Metric, observed=True)
_of_gateway = partial(Metric, programs=_GATEWAY, observed=True)

BUILD_INFO = Metric(
    "modelplane_build_info", Type.GAUGE, "1, with the version that runs.", ("version",), EVERYONE
)
LEADER = Metric("modelplane_leader", Type.GAUGE, "1 while this process reconciles, 0 while it stands by.")
RECONCILES = Metric(
    "modelplane_reconcile_total",
    Type.COUNTER,
    "Reconciles by how they ended: `success`, `requeue_after` (done, and looked at again later), `retry` "
    "(something could not be read or written, and is tried again), `bug`.",
    ("kind", "result"),
)
RECONCILE_ERRORS = Metric(
    "modelplane_reconcile_errors_total",
    Type.COUNTER,
    "Reconciles that ended with `retry` or `bug`.",
    ("kind",),
)
RECONCILE_DURATION = Metric(
    "modelplane_reconcile_duration_seconds",
    Type.HISTOGRAM,
    "How long reconciles took, waiting for clusters included.",
    ("kind",),
    buckets=_QUICK,
)
QUEUE_DEPTH = _of_controller(
    "modelplane_queue_depth", Type.GAUGE, "Objects that wait to be reconciled.", ("queue",)
)
QUEUE_RUNNING = _of_controller(
    "modelplane_queue_running", Type.GAUGE, "Objects that are being reconciled.", ("queue",)
)
QUEUE_LATENCY = Metric(
    "modelplane_queue_latency_seconds",
    Type.HISTOGRAM,
    "How long objects waited in a queue before their reconcile began.",
    ("queue",),
    buckets=_QUICK,
)
CLUSTER_REACHABLE = _of_controller(
    "modelplane_cluster_reachable",
    Type.GAUGE,
    "1 while what is known of a cluster can be relied on, 0 while it is silent, refuses, or has no usable "
    "kubeconfig.",
    ("cluster",),
)
CLUSTER_STATE = _of_controller(
    "modelplane_cluster_state",
    Type.GAUGE,
    "1 for the present state of a cluster: `Reachable`, `Suspect`, `Isolated`, `Lost`, `Returning`, `Gone`. "
    "Absent while no deployment has failover, as is the next one.",
    ("cluster", "state"),
)
FAILOVER_PAUSED = _of_controller(
    "modelplane_failover_paused",
    Type.GAUGE,
    "1 while clusters are lost and nothing is replaced, because the fault may be the control plane's own.",
)
CERTIFICATE_EXPIRY = _of_controller(
    "modelplane_certificate_expiry_timestamp_seconds",
    Type.GAUGE,
    "Time at which a certificate of the gateway expires, in seconds since 1970 (UTC).",
    ("secret",),
)
OBJECTS = _of_controller(
    "modelplane_objects",
    Type.GAUGE,
    "Objects on the control plane, by whether they are ready.",
    ("kind", "ready"),
)
REPLICAS = _of_controller(
    "modelplane_replicas",
    Type.GAUGE,
    "Replicas of a deployment: `desired` by its spec, `placed` on a cluster, `ready`, and `updated` to the "
    "present template. The states overlap, so do not add them up.",
    ("namespace", "deployment", "state"),
)
UNSCHEDULABLE = _of_controller(
    "modelplane_unschedulable_replicas",
    Type.GAUGE,
    "Desired replicas that have no place, with the reason; absent while all have one.",
    ("namespace", "deployment", "reason"),
)
CANARY_STOPPED = _of_controller(
    "modelplane_canary_stopped",
    Type.GAUGE,
    "1 for a ModelDeployment whose canary was aborted or waits, with the reason of its condition: "
    "`CanaryAborted`, `CanaryHolds` or `Unsupported`.",
    ("namespace", "deployment", "reason"),
)
AUTOSCALER_INERT = _of_controller(
    "modelplane_autoscaler_inert",
    Type.GAUGE,
    "1 for an InferenceAutoscaler that changes nothing, with the reason of its ScalingActive condition.",
    ("namespace", "autoscaler", "reason"),
)
AUTOSCALER_LIMITED = _of_controller(
    "modelplane_autoscaler_limited",
    Type.GAUGE,
    "1 for an InferenceAutoscaler whose load needs more replicas than it can get, with the reason of its "
    "ScalingLimited condition.",
    ("namespace", "autoscaler", "reason"),
)
STANDBY_ACTIVE = _of_controller(
    "modelplane_standby_active",
    Type.GAUGE,
    "1 while a standby runs its replicas in place of the deployment that it stands by for, else 0; absent "
    "for other deployments.",
    ("namespace", "deployment"),
)
NODES = _of_controller(
    "modelplane_nodes",
    Type.GAUGE,
    "Nodes of a pool whose nodes are counted whole: `total`, `used` by replicas, `free`, as placements count "
    "them, and `usable` where capacity is observed. Where more are used than there are, `free` is 0.",
    ("cluster", "pool", "state"),
)
DEVICES = _of_controller(
    "modelplane_devices",
    Type.GAUGE,
    "Devices of a pool: `total`, `used` by replicas, `free`, as placements count them, and `usable` where "
    "capacity is observed. Where nodes are counted whole, all devices of a used node are used. Where more "
    "are used than there are, `free` is 0.",
    ("cluster", "pool", "device", "state"),
)
CAPACITY_LOST = _of_controller(
    "modelplane_capacity_lost",
    Type.GAUGE,
    "Declared devices, or `nodes`, that new replicas may not use, by cause; absent where nothing is lost, or "
    "capacity is not observed.",
    ("cluster", "pool", "device", "reason"),
)
CAPACITY_PROBLEM = _of_controller(
    "modelplane_capacity_problem",
    Type.GAUGE,
    "1 while the problem of a cluster's capacity lasts: `stale`, `overcommitted` or `drifted`, else 0; "
    "absent where capacity is not observed.",
    ("cluster", "problem"),
)
EVICTION_NOTICES = _of_controller(
    "modelplane_eviction_notices",
    Type.GAUGE,
    "Nodes of a pool that are about to be reclaimed, by `status.evictionNotices`; absent without any.",
    ("cluster", "pool"),
)
POOL_BLOCKED = _of_controller(
    "modelplane_pool_blocked",
    Type.GAUGE,
    "1 while a spot pool that lost nodes gets no new replica; absent otherwise.",
    ("cluster", "pool"),
)
SPOT_REPLICAS = _of_controller(
    "modelplane_spot_replicas",
    Type.GAUGE,
    "Placed replicas of a deployment that are on spot pools; absent without any.",
    ("namespace", "deployment"),
)
UNHEALTHY_DEVICES = _of_controller(
    "modelplane_unhealthy_devices",
    Type.GAUGE,
    "Devices of a ModelReplica that their drivers report as unhealthy; absent where there are none.",
    ("namespace", "replica", "cluster"),
)
QUOTA_DEVICES = _of_controller(
    "modelplane_quota_devices",
    Type.GAUGE,
    "Devices of a class by a DeviceQuota: `nominal`, `used` by the replicas of its namespaces, and those of "
    "them that are `borrowed`.",
    ("quota", "inference_class", "device", "state"),
)
QUOTA_WAITING = _of_controller(
    "modelplane_quota_waiting_replicas",
    Type.GAUGE,
    "Replicas that are not placed because a DeviceQuota of their namespace has no devices left for them, or "
    "is not known.",
    ("quota", "namespace"),
)
UNREADABLE = _of_controller(
    "modelplane_unreadable_replicas",
    Type.GAUGE,
    "ModelReplicas that cannot be read. While there are any, free capacity is unknown: nothing is "
    "placed, and `modelplane_nodes` and `modelplane_devices` are absent.",
)
FUNCTION_REQUESTS = Metric(
    "modelplane_function_requests_total",
    Type.COUNTER,
    "Requests that Crossplane sent, by how they ended: `success`, `fatal` (answered with a fatal result), "
    "`bug`.",
    ("kind", "result"),
    _FUNCTION,
)
FUNCTION_DURATION = Metric(
    "modelplane_function_duration_seconds",
    Type.HISTOGRAM,
    "How long requests took.",
    ("kind",),
    _FUNCTION,
    buckets=_QUICK,
)
FUNCTION_DECODED = Metric(
    "modelplane_function_decoded_objects_total",
    Type.COUNTER,
    "Objects that were decoded, because that version of them was not known.",
    (),
    _FUNCTION,
)
FUNCTION_CACHED = Metric(
    "modelplane_function_cached_objects",
    Type.GAUGE,
    "Decoded objects that are remembered.",
    (),
    _FUNCTION,
)
GATEWAY_REQUESTS = _of_gateway(
    "modelplane_gateway_requests_total",
    Type.COUNTER,
    "Requests that the gateway has answered, also with an error.",
    ("class",),
)
GATEWAY_IN_PROGRESS = _of_gateway(
    "modelplane_gateway_requests_in_progress", Type.GAUGE, "Requests in progress."
)
GATEWAY_TOKENS = _of_gateway(
    "modelplane_gateway_tokens_total",
    Type.COUNTER,
    "Tokens of prompts and of answers, as backends say, or estimated. Needs the gateway module, as do the "
    "following.",
    ("service", "kind"),
)
GATEWAY_ESTIMATED = _of_gateway(
    "modelplane_gateway_estimated_total", Type.COUNTER, "Answers whose tokens are estimated.", ("service",)
)
GATEWAY_OVERFLOWED = _of_gateway(
    "modelplane_gateway_overflowed_total",
    Type.COUNTER,
    "Requests that went to another tier because no endpoint of the first one had room.",
    ("service",),
)
GATEWAY_REFUSED = _of_gateway(
    "modelplane_gateway_refused_total",
    Type.COUNTER,
    "Requests that the gateway module has refused.",
    ("code",),
)
GATEWAY_HELD = _of_gateway(
    "modelplane_gateway_held_requests",
    Type.GAUGE,
    "Requests that wait for the first endpoint of their service.",
    ("service",),
)
GATEWAY_HOLDS = _of_gateway(
    "modelplane_gateway_holds_total",
    Type.COUNTER,
    "Requests that have waited for an endpoint, by how it ended: `released`, `timed_out` or `left`.",
    ("service", "result"),
)
GATEWAY_ENDPOINT_IN_PROGRESS = _of_gateway(
    "modelplane_gateway_endpoint_requests_in_progress",
    Type.GAUGE,
    "Requests in progress at an endpoint.",
    ("endpoint",),
)
GATEWAY_ENDPOINT_REQUESTS = _of_gateway(
    "modelplane_gateway_endpoint_requests_total",
    Type.COUNTER,
    "Requests that the gateway has sent to an endpoint, retries included.",
    ("endpoint",),
)
GATEWAY_FIRST_TOKEN = _of_gateway(
    "modelplane_gateway_endpoint_first_token_seconds",
    Type.HISTOGRAM,
    "Time from the end of a request to the first byte of a stream of an endpoint, which is its first token, "
    "or until the client left.",
    ("endpoint",),
    buckets=_UNTIL_A_TOKEN,
)
GATEWAY_ENDPOINT_ANSWERS = _of_gateway(
    "modelplane_gateway_endpoint_answers_total",
    Type.COUNTER,
    "Answers of an endpoint by status, those after which the gateway asked another endpoint included.",
    ("endpoint", "class"),
)
GATEWAY_ENDPOINT_CUT_OFF = _of_gateway(
    "modelplane_gateway_endpoint_cut_off_total",
    Type.COUNTER,
    "Requests to an endpoint that it refused, or ended before the answer was complete.",
    ("endpoint",),
)
GATEWAY_ENDPOINT_TIMED = _of_gateway(
    "modelplane_gateway_endpoint_timed_answers_total",
    Type.COUNTER,
    "Complete answers of an endpoint whose time is counted.",
    ("endpoint",),
)
GATEWAY_ENDPOINT_SECONDS = _of_gateway(
    "modelplane_gateway_endpoint_answer_seconds_total",
    Type.COUNTER,
    "Sum of the times from the complete request to the complete answer of an endpoint.",
    ("endpoint",),
)
GATEWAY_UNPUBLISHED = Metric(
    "modelplane_gateway_usage_unpublished",
    Type.GAUGE,
    "1 while the gateway cannot publish what API keys have used, so that budgets do not count it.",
    (),
    _GATEWAY,
)
GATEWAY_RELOAD_FAILURES = _of_gateway(
    "modelplane_gateway_reload_failures_total",
    Type.COUNTER,
    "Files of keys, shares, models or credentials that were missing or damaged; those before stay in force.",
)
GATEWAY_PANICS = _of_gateway(
    "modelplane_gateway_panics_total",
    Type.COUNTER,
    "Requests that were answered with 500 because of a defect of the gateway module.",
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Every metric, in the order of the reference page."""
