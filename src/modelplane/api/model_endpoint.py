"""ModelEndpoint: one place that answers requests, in the fleet or outside it."""

from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api.fields.cluster.mutual_tls_settings import EndpointMutualTLS
from modelplane.api.fields.requests.regions import Region
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import DNS_SUBDOMAIN, SECRET_KEY, SPACES, about


class CredentialHeader(StrEnum):
    """Headers that carry a credential."""

    AUTHORIZATION = "Authorization"
    X_API_KEY = "x-api-key"
    API_KEY = "api-key"
    X_GOOG_API_KEY = "x-goog-api-key"


class CredentialSecret(Model):
    """The Secret that holds a provider's API key."""

    name: Annotated[
        str,
        about(
            "Name of a Secret in this namespace, of type modelplane.ai/provider-credential. Its key hosts "
            "lists the hosts that may get the credential.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    key: Annotated[
        str, about("Key of the API key in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)
    ] = "apiKey"


class EndpointCredential(Model):
    """A provider's API key, and the header that carries it."""

    secret_ref: Annotated[CredentialSecret, about("Secret with the API key.")]
    header: Annotated[
        CredentialHeader,
        about("Header of the API key, instead of the client's. Authorization sends Bearer and the key."),
    ] = CredentialHeader.AUTHORIZATION


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
    model: (
        Annotated[
            str,
            about(
                "Name of the model at this endpoint, which replaces the one in each request's body. Needs "
                "the gateway module. Absent: the client's stays.",
                min_length=1,
                max_length=256,
                pattern=r"^[!-~]+$",
            ),
        ]
        | None
    ) = None
    region: (
        Annotated[
            Region,
            about(
                "Region in which the endpoint answers requests. Absent: outside every region, so that it "
                "gets no requests of a service with a region rule."
            ),
        ]
        | None
    ) = None
    credential: (
        Annotated[
            EndpointCredential,
            about(
                "API key that the gateway sends to this endpoint, by https only. Needs the gateway module. "
                "Absent: the client's headers are passed on."
            ),
        ]
        | None
    ) = None

    mutual_tls: (
        Annotated[
            EndpointMutualTLS,
            about(
                "The gateway shows its certificate and accepts that of the cluster only. For the https "
                "address of a cluster's gateway, with a rewritePath below /NAMESPACE/ of the endpoint. "
                "Modelplane sets it."
            ),
        ]
        | None
    ) = msgspec.field(name="mutualTLS", default=None)


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
