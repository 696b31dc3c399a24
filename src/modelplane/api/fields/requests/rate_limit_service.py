"""Rate limit service: the server that counts requests and tokens for all gateways together."""

from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_LABEL, about

DEFAULT_PORT = 8081
"""Port of gRPC of ``envoyproxy/ratelimit``, unless it is set."""

DEFAULT_DOMAIN = "modelplane"
"""Domain of the service's configuration, unless it is set."""

_HOST = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$|^[0-9a-f:.]+$"
"""A DNS name or an IP address."""


class RateLimitService(Model):
    """A server of Envoy's rate limit API v3, such as envoyproxy/ratelimit with Redis or Valkey."""

    host: Annotated[
        str, about("DNS name or IP address of the service.", min_length=1, max_length=253, pattern=_HOST)
    ]
    port: Annotated[int, about("Port of its gRPC server.", ge=1, le=65535)] = DEFAULT_PORT
    domain: Annotated[
        str,
        about(
            "Domain of the service's configuration, which needs no descriptors. Fleets with one service and "
            "one domain count together.",
            min_length=1,
            max_length=63,
            pattern=DNS_LABEL,
        ),
    ] = DEFAULT_DOMAIN
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
