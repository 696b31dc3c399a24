"""ModelService: one address in front of every ModelEndpoint that it selects."""

from collections.abc import Mapping
from typing import Annotated

from modelplane.api.fields import QUALIFIED_KEYS, LabelValue, about
from modelplane.api.meta import MAX_MATCH_LABELS, Model, ObjectMeta, Status


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


class EndpointEntry(Model):
    """A group of endpoints, and its share of the traffic."""

    weight: (
        Annotated[
            int,
            about(
                "Share of the traffic that goes to the whole group, relative to the other entries, 1 where "
                "it is absent. With no weight on any entry, each endpoint gets the same share.",
                ge=1,
                le=1_000_000,
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
            "Groups of endpoints; requests go to the union of them.",
            min_length=1,
            max_length=64,
            atomic=True,
        ),
    ]


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
