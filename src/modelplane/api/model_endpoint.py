"""ModelEndpoint: one place that answers requests, in the fleet or outside it."""

from typing import Annotated

from modelplane.api.fields import about
from modelplane.api.meta import Model, ObjectMeta, Status


class ModelEndpointSpec(Model):
    """Where the endpoint is."""

    url: Annotated[
        str,
        about(
            "http or https URL, of which scheme, host and port are used. The port is 443 for https, 80 for "
            "http, where it is absent.",
            min_length=1,
            max_length=2048,
            pattern=r"^https?://(\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)(:[0-9]{1,5})?([/?#]\S*)?$",
        ),
    ]
    rewrite_path: (
        Annotated[
            str,
            about(
                "Path that takes the place of the service's own prefix, /NAMESPACE/SERVICE/. "
                "Absent: the path is passed on as it came.",
                max_length=1024,
                pattern=r"^/[^\s?#]*$",
            ),
        ]
        | None
    ) = None


class EndpointRouting(Model):
    """How the gateway reaches the endpoint."""

    backend_name: Annotated[str, about("Service that stands for the endpoint.")] | None = None


class ModelEndpointStatus(Status):
    """Whether the endpoint can be routed to."""

    routing: Annotated[EndpointRouting, about("How the gateway reaches the endpoint.")] | None = None


class ModelEndpoint(Model):
    """A place that answers requests: a replica's gateway, or an outside provider."""

    metadata: ObjectMeta
    spec: Annotated[ModelEndpointSpec, about("Where the endpoint is.")]
    status: Annotated[ModelEndpointStatus, about("Whether the endpoint can be routed to.")] = (
        ModelEndpointStatus()
    )
