"""ModelService: one address in front of every ModelEndpoint that it selects."""

from collections.abc import Mapping
from typing import Annotated

from modelplane.api.budgets import Budget
from modelplane.api.fields import QUALIFIED_KEYS, LabelValue, about
from modelplane.api.meta import MAX_MATCH_LABELS, Model, ObjectMeta, Status
from modelplane.api.model_names import ModelName

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
    aliases: Annotated[
        tuple[ModelName, ...],
        about(
            "Further names of the service at the gateway's URL for all models. They count for ModelKeys of "
            "its namespace only; for others, the platform adds names to the InferenceGateway.",
            max_length=MAX_ALIASES,
            unique=True,
        ),
    ] = ()


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
