"""ModelEndpoint: one place that answers requests, in the fleet or outside it."""

from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api.fields.cluster.mutual_tls_settings import EndpointMutualTLS
from modelplane.api.fields.requests.regions import Region
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import DNS_SUBDOMAIN, SECRET_KEY, SPACES, about


class CredentialHeader(StrEnum):
    """Header for a credential."""

    AUTHORIZATION = "Authorization"
    X_API_KEY = "x-api-key"
    API_KEY = "api-key"
    X_GOOG_API_KEY = "x-goog-api-key"


class CredentialSecret(Model):
    """The Secret with the API key of a provider."""

    name: Annotated[
        str,
        about(
            "Name of a Secret in this namespace, of type modelplane.ai/provider-credential. Key "
            "hosts of the Secret lists the hosts that can receive the credential.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    key: Annotated[
        str, about("Key of the API key in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)
    ] = "apiKey"


class EndpointCredential(Model):
    """The API key of a provider, and the header to send it in."""

    secret_ref: Annotated[CredentialSecret, about("Secret that contains the API key.")]
    header: Annotated[
        CredentialHeader,
        about(
            "Header for the API key. Replaces the header of the client. With Authorization, the "
            "value is Bearer and the key."
        ),
    ] = CredentialHeader.AUTHORIZATION


class ModelEndpointSpec(Model):
    """Location of the endpoint."""

    url: Annotated[
        str,
        about(
            "http or https URL. Only scheme, host, and port are used. Default port: 443 for "
            "https, 80 for http.",
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
                "Path that replaces the prefix of the service, /NAMESPACE/SERVICE/. Default: the "
                "path is not changed.",
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
                "Name of the model at this endpoint. Replaces the model name in the body of each request. "
                "Requires the gateway module. Default: the name in the request is not changed.",
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
                "Region of the endpoint. Default: none. An endpoint without a region receives no "
                "requests of a service with a region rule."
            ),
        ]
        | None
    ) = None
    credential: (
        Annotated[
            EndpointCredential,
            about(
                "API key that the gateway sends to this endpoint, only over https. Requires the "
                "gateway module. Default: the headers of the client are passed on."
            ),
        ]
        | None
    ) = None

    mutual_tls: (
        Annotated[
            EndpointMutualTLS,
            about(
                "Mutual TLS: the gateway presents a client certificate and accepts only the "
                "certificate of the cluster. Set by Modelplane for the https address of a cluster's "
                "gateway, with a rewritePath below /NAMESPACE/ of the endpoint."
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
