"""ModelService: one address in front of every ModelEndpoint that it selects."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.meta import MAX_MATCH_LABELS, Model, ObjectMeta, Status
from modelplane.api.names import ModelName
from modelplane.api.schema.fields import QUALIFIED_KEYS, LabelValue, Rule, about

MAX_ALIASES = 8
"""Further names of one service: they bound its share of what the gateway reads."""


class EndpointSelector(Model):
    """Selects ModelEndpoints in the namespace of the service."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels and values that an endpoint must have. An empty selector selects every "
            "endpoint in the namespace.",
            max_length=MAX_MATCH_LABELS,
            rules=(QUALIFIED_KEYS,),
        ),
    ]


LAST_PRIORITY = 9


class EndpointEntry(Model):
    """A group of endpoints, and the share of traffic for the group."""

    priority: Annotated[
        int,
        about(
            "Tier of the group. Tier 0 is used first. A request moves to the next tier if this tier has no "
            "endpoint, or if the endpoints refuse the request: no connection, 503, or 429.",
            ge=0,
            le=LAST_PRIORITY,
        ),
    ] = 0
    weight: (
        Annotated[
            int,
            about(
                "Share of the traffic in the tier for the whole group, relative to the other groups "
                "with the same priority. Default: 1. If no group in the tier has a weight, each "
                "endpoint receives an equal share.",
                ge=1,
                le=1_000_000,
            ),
        ]
        | None
    ) = None
    max_outstanding_requests: (
        Annotated[
            int,
            about(
                "If an endpoint has this many requests in progress (counted per gateway), the gateway "
                "prefers other endpoints, first in the same tier and then in the next. The last tier "
                "receives requests even above this number. Default: no limit; only refused requests are "
                "sent elsewhere.",
                ge=1,
                le=100_000,
            ),
        ]
        | None
    ) = None
    max_queued_requests: (
        Annotated[
            int,
            about(
                "If an endpoint's engine has this many queued requests, the gateway prefers other endpoints, "
                "as with maxOutstandingRequests. Engines report the number with their responses; without a "
                "recent report, the queue is ignored. Default: the queue is ignored.",
                ge=1,
                le=100_000,
            ),
        ]
        | None
    ) = None
    budget: (
        Annotated[
            Budget,
            about(
                "Daily and monthly budget of the group, in UTC. When a limit is reached, the endpoints "
                "receive no requests until the period ends. Requires the gateway module. Default: no limit."
            ),
        ]
        | None
    ) = None
    selector: Annotated[EndpointSelector, about("The endpoints of the group.")]


class Hold(Model):
    """Limits for requests that wait for a replica."""

    timeout_seconds: Annotated[
        int,
        about(
            "Maximum wait of a request, in seconds. The request then receives 503.",
            ge=1,
            le=600,
        ),
    ] = 60
    max_requests: Annotated[
        int,
        about(
            "Maximum number of requests that wait at one gateway. Additional requests receive "
            "503 immediately.",
            ge=1,
            le=1000,
        ),
    ] = 100


class BalancingPolicy(StrEnum):
    """Rules by which an endpoint of a tier is chosen."""

    WEIGHTED = "Weighted"
    LEAST_REQUESTS = "LeastRequests"
    SESSION = "Session"
    PREFIX = "Prefix"
    TIME_TO_FIRST_BYTE = "TimeToFirstByte"


_HEADER_OF_SESSION = Rule(
    "!has(self.sessionHeader) || self.policy == 'Session'",
    "sessionHeader requires the policy Session",
    ".sessionHeader",
)


class Balancing(Model):
    """Settings for the choice of an endpoint in a tier."""

    policy: Annotated[
        BalancingPolicy,
        about(
            "Balancing policy. Weighted: random, in proportion to the weights. LeastRequests: the endpoint "
            "with the fewest requests in progress, relative to the weights and the load that engines "
            "report. Session: all requests of a session go to the same endpoint. Prefix: requests with the "
            "same first 2 KiB of the prompt go to the same endpoint. With Session and Prefix, an endpoint "
            "with more than 1.25 times the average share of requests in progress passes requests on to "
            "other endpoints. TimeToFirstByte: the endpoint with the shortest mean time to first byte, "
            "relative to requests in progress and weights."
        ),
    ] = BalancingPolicy.WEIGHTED
    session_header: (
        Annotated[
            str,
            about(
                "Request header that identifies the session. If it is not set, or a request doesn't have "
                "the header, the ID of the API key identifies the session. A request with neither goes to "
                "the endpoint with the fewest requests.",
                min_length=1,
                max_length=64,
                pattern=r"^[A-Za-z0-9][-A-Za-z0-9_]*$",
            ),
        ]
        | None
    ) = None


class ModelServiceSpec(Model):
    """Routing of the service's requests."""

    endpoints: Annotated[
        tuple[EndpointEntry, ...],
        about(
            "Groups of endpoints. Groups with the same priority form one tier.",
            min_length=1,
            max_length=64,
            atomic=True,
        ),
    ]
    balancing: (
        Annotated[
            Balancing,
            about(
                "How to choose an endpoint in a tier. Default: by weight.",
                rules=(_HEADER_OF_SESSION,),
            ),
        ]
        | None
    ) = None
    aliases: Annotated[
        tuple[ModelName, ...],
        about(
            "Additional model names for the service at the gateway's URL for all models. They apply "
            "only to ModelKeys in this namespace. For other namespaces, the platform team adds "
            "names to the InferenceGateway.",
            max_length=MAX_ALIASES,
            unique=True,
        ),
    ] = ()
    hold: (
        Annotated[
            Hold,
            about(
                "Lets requests wait while the service lacks endpoints, for example because the selected "
                "ModelDeployment is scaled to zero. Requires the gateway module. Default: such requests "
                "receive 503 immediately."
            ),
        ]
        | None
    ) = None


class ModelServiceStatus(Status):
    """Address of the service."""

    address: (
        Annotated[
            str, about("URL of the service, without a trailing slash. Absent until the service is routed.")
        ]
        | None
    ) = None


class ModelService(Model):
    """One stable URL for a model, independent of the endpoints that serve it."""

    metadata: ObjectMeta
    spec: Annotated[ModelServiceSpec, about("Routing of the service's requests.")]
    status: Annotated[ModelServiceStatus, about("Address of the service.")] = ModelServiceStatus()
