"""Limits of API keys, which a ModelKey and a namespace's grant have in common, and their counter."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_LABEL, about

_HOST = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$|^[0-9a-f:.]+$"
"""A DNS name or an IP address."""


class RateLimitService(Model):
    """A server of Envoy's rate limit API v3, such as envoyproxy/ratelimit with Redis or Valkey."""

    host: Annotated[
        str, about("DNS name or IP address of the service.", min_length=1, max_length=253, pattern=_HOST)
    ]
    port: Annotated[int, about("Port of its gRPC server.", ge=1, le=65535)] = 8081
    domain: Annotated[
        str,
        about(
            "Domain of the service's configuration, which needs no descriptors. Fleets with one service and "
            "one domain count together.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ] = "modelplane"
    fail_closed: Annotated[
        bool,
        about(
            "True to refuse requests of these keys with 503 while the service does not answer. False to "
            "serve them without these limits."
        ),
    ] = True
    tls: Annotated[
        bool,
        about(
            "True to use TLS, with the certificate authorities that the gateway trusts. False for clear text."
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
    """Counters of the limits of requests and tokens a minute."""

    LOCAL = "Local"
    """Those of each gateway, which has an equal part of each limit."""
    GLOBAL = "Global"
    """Those of the rate limit service, for all gateways together."""


class KeyLimits(Model):
    """Limits of requests."""

    requests_per_minute: (
        Annotated[int, about("Requests a minute. Absent: no limit.", ge=1, le=MOST_A_MINUTE)] | None
    ) = None
    tokens_per_minute: (
        Annotated[
            int,
            about("Tokens a minute, of prompts and answers. Absent: no limit.", ge=1, le=MOST_A_MINUTE),
        ]
        | None
    ) = None
    streams: (
        Annotated[int, about("Requests at the same time. Absent: no limit.", ge=1, le=MOST_STREAMS)] | None
    ) = None
    max_body_bytes: (
        Annotated[
            int,
            about(
                "Bytes of a request's body. Absent: no limit, but 20 MiB for a body that the gateway reads.",
                ge=1,
                le=MOST_BODY_BYTES,
            ),
        ]
        | None
    ) = None
