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
    """Selects ModelEndpoints of the service's namespace."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels, all of which an endpoint must have, with these values. Empty selects every endpoint of "
            "the namespace.",
            max_length=MAX_MATCH_LABELS,
            rules=(QUALIFIED_KEYS,),
        ),
    ]


LAST_PRIORITY = 9


class EndpointEntry(Model):
    """A group of endpoints, and its share of the traffic."""

    priority: Annotated[
        int,
        about(
            "Tier of the group, 0 the first. A request goes to the next tier if this one has no endpoint, or "
            "if those that it was sent to refused it: no connection, 503 or 429.",
            ge=0,
            le=LAST_PRIORITY,
        ),
    ] = 0
    weight: (
        Annotated[
            int,
            about(
                "Share of the tier's traffic that goes to the whole group, relative to the other entries of "
                "its priority, 1 where it is absent. With no weight on any of these, each endpoint gets the "
                "same share.",
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
                "Requests in progress at one endpoint of the group, counted by each gateway, from which "
                "others are asked first: those of the tier, and if none of them has room, the next tier. "
                "The last tier is asked even if it has no room. Absent: only refusals count.",
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
                "Requests in the queue of one endpoint's engine, as it reports with its answers, from which "
                "others are asked first, as with maxOutstandingRequests. Absent, or without a recent report: "
                "the queue does not count.",
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
                "What the group may use in a day and a month of UTC. When a limit is reached, its endpoints "
                "get no requests until the period ends. Needs the gateway's module. Absent: no limit."
            ),
        ]
        | None
    ) = None
    selector: Annotated[EndpointSelector, about("The endpoints of the group.")]


class Hold(Model):
    """Limits of the requests that wait for a replica."""

    timeout_seconds: Annotated[
        int,
        about(
            "Longest wait of a request, in seconds. It then gets 503.",
            ge=1,
            le=600,
        ),
    ] = 60
    max_requests: Annotated[
        int,
        about(
            "Maximum of requests that wait at one gateway. Each further one gets 503 at once.",
            ge=1,
            le=1000,
        ),
    ] = 100


class BalancingPolicy(StrEnum):
    """Policies by which an endpoint of a tier is chosen."""

    WEIGHTED = "Weighted"
    LEAST_REQUESTS = "LeastRequests"
    SESSION = "Session"
    PREFIX = "Prefix"
    TIME_TO_FIRST_BYTE = "TimeToFirstByte"


_HEADER_OF_SESSION = Rule(
    "!has(self.sessionHeader) || self.policy == 'Session'",
    "a header of sessions needs the policy Session",
    ".sessionHeader",
)


class Balancing(Model):
    """Choice of an endpoint among those of one tier."""

    policy: Annotated[
        BalancingPolicy,
        about(
            "Weighted: at random, in proportion to the weights. LeastRequests: the endpoint with the fewest "
            "requests in progress, relative to the weights and to the load that its engine reports. Session: "
            "requests of one session go to one endpoint. Prefix: requests whose prompts begin with the same "
            "2 KiB go to one endpoint. With Session and Prefix, an endpoint with more than 1.25 times its "
            "share of the requests in progress passes requests on to another one. TimeToFirstByte: the "
            "endpoint with the shortest mean time to the first byte of recent answers, relative to its "
            "requests in progress and the weights."
        ),
    ] = BalancingPolicy.WEIGHTED
    session_header: (
        Annotated[
            str,
            about(
                "Header of a request whose value is the session. Absent, or if a request lacks it: the id of "
                "the API key. A request with neither goes to the endpoint with the fewest requests.",
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
            "Groups of endpoints; requests go to the union of those of one priority.",
            min_length=1,
            max_length=64,
            atomic=True,
        ),
    ]
    balancing: (
        Annotated[
            Balancing,
            about(
                "Choice of an endpoint within a tier. Absent: by weight.",
                rules=(_HEADER_OF_SESSION,),
            ),
        ]
        | None
    ) = None
    aliases: Annotated[
        tuple[ModelName, ...],
        about(
            "Further names of the service at the gateway's URL for all models. They count for ModelKeys of "
            "its namespace only; for others, the platform adds names to the InferenceGateway.",
            max_length=MAX_ALIASES,
            unique=True,
        ),
    ] = ()
    hold: (
        Annotated[
            Hold,
            about(
                "Lets requests wait while the service has no endpoint and selects the replicas of a "
                "ModelDeployment, for example one that is scaled to zero. If absent, they get 503 at once. "
                "Needs the gateway module."
            ),
        ]
        | None
    ) = None


class ModelServiceStatus(Status):
    """Address of the service."""

    address: (
        Annotated[str, about("URL of the service, without a slash at the end. Absent until it is routed.")]
        | None
    ) = None


class ModelService(Model):
    """One stable address for a model, independent of the endpoints that serve it."""

    metadata: ObjectMeta
    spec: Annotated[ModelServiceSpec, about("Routing of the service's requests.")]
    status: Annotated[ModelServiceStatus, about("Address of the service.")] = ModelServiceStatus()
