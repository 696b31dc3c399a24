"""ModelEndpoint: one place that answers requests, in the fleet or outside it."""

from typing import Annotated

from modelplane.api.fields import SPACES, about
from modelplane.api.meta import Model, ObjectMeta, Status


class ModelEndpointSpec(Model):
    """Location of the endpoint."""

    url: Annotated[
        str,
        about(
            "http or https URL, of which scheme, host and port are used. The port is 443 for https, 80 for "
            "http, where it is absent.",
            min_length=1,
            max_length=2048,
            pattern=rf"^https?://(\[[0-9a-fA-F:.]+\]|[^{SPACES}/?#@:\[\]]+)"
            rf"(:[0-9]{{1,5}})?([/?#][^{SPACES}]*)?$",
        ),
    ]
    rewrite_path: (
        Annotated[
            str,
            about(
                "Path that replaces the service's own prefix, /NAMESPACE/SERVICE/. "
                "Absent: the path is passed on unchanged.",
                max_length=1024,
                pattern=rf"^/[^{SPACES}?#]*$",
            ),
        ]
        | None
    ) = None


class EndpointRouting(Model):
    """Backend of the endpoint at the gateway."""

    backend_name: Annotated[str, about("Service that represents the endpoint.")] | None = None


class ModelEndpointStatus(Status):
    """Routing of the endpoint."""

    routing: Annotated[EndpointRouting, about("Backend of the endpoint at the gateway.")] | None = None


class ModelEndpoint(Model):
    """A backend for requests: a replica's gateway, or an external provider."""

    metadata: ObjectMeta
    spec: Annotated[ModelEndpointSpec, about("Location of the endpoint.")]
    status: Annotated[ModelEndpointStatus, about("Routing of the endpoint.")] = ModelEndpointStatus()
