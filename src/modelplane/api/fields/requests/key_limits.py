"""Limits of API keys, which a ModelKey and a namespace's grant have in common."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

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
