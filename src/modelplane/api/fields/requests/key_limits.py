"""Limits of API keys, which a ModelKey and a namespace's grant have in common, and their counter."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_LABEL, about

_HOST = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$|^[0-9a-f:.]+$"
"""A DNS name or an IP address."""


class RateLimitService(Model):
    """A server that implements Envoy's rate limit API v3, such as envoyproxy/ratelimit with Redis or
    Valkey."""

    host: Annotated[
        str, about("DNS name or IP address of the service.", min_length=1, max_length=253, pattern=_HOST)
    ]
    port: Annotated[int, about("gRPC port of the service.", ge=1, le=65535)] = 8081
    domain: Annotated[
        str,
        about(
            "Domain in the configuration of the service. The domain needs no descriptors. Fleets "
            "that use the same service and domain share their counters.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ] = "modelplane"
    fail_closed: Annotated[
        bool,
        about(
            "Whether to refuse requests with these keys with 503 while the service doesn't "
            "answer. If false, such requests are served without these limits."
        ),
    ] = True
    tls: Annotated[
        bool,
        about(
            "Whether to use TLS, with the certificate authorities that the gateway trusts. If "
            "false, the connection is not encrypted."
        ),
    ] = False


MOST_A_MINUTE = 1_000_000_000
"""Maximum of requests or tokens a minute that a limit can name."""

MOST_STREAMS = 1_000_000
"""Maximum of concurrent requests that a limit can name."""

MOST_BODY_BYTES = 1 << 30
"""Maximum of a request's body that a limit can name."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

SERVICE_NAME = rf"^{_LABEL}/{_LABEL}(\.{_LABEL})*$"
"""One service."""

SERVICE_PATTERN = rf"^{_LABEL}/(\*|{_LABEL}(\.{_LABEL})*)$"
"""One service, or all of a namespace."""

ServicePattern = Annotated[
    str,
    about(
        "NAMESPACE/SERVICE, or NAMESPACE/* for every service of a namespace.",
        min_length=3,
        max_length=127,
        pattern=SERVICE_PATTERN,
    ),
]


class RateLimitType(StrEnum):
    """Scope in which requests and tokens per minute are counted."""

    LOCAL = "Local"
    """Those of each gateway, which has an equal part of each limit."""
    GLOBAL = "Global"
    """Those of the rate limit service, for all gateways together."""


class KeyLimits(Model):
    """Limits on requests."""

    requests_per_minute: (
        Annotated[
            int, about("Maximum number of requests per minute. Default: no limit.", ge=1, le=MOST_A_MINUTE)
        ]
        | None
    ) = None
    tokens_per_minute: (
        Annotated[
            int,
            about(
                "Maximum number of tokens per minute, in prompts and responses. Default: no limit.",
                ge=1,
                le=MOST_A_MINUTE,
            ),
        ]
        | None
    ) = None
    streams: (
        Annotated[
            int, about("Maximum number of concurrent requests. Default: no limit.", ge=1, le=MOST_STREAMS)
        ]
        | None
    ) = None
    max_body_bytes: (
        Annotated[
            int,
            about(
                "Maximum size of a request body, in bytes. Default: no limit, except 20 MiB for "
                "bodies that the gateway reads.",
                ge=1,
                le=MOST_BODY_BYTES,
            ),
        ]
        | None
    ) = None
