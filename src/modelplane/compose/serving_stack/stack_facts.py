"""Facts of a serving stack: the certificates that its caller issues for the gateway in it."""

from typing import TypeAlias

import msgspec

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.compose.composition import Request
from modelplane.gateway.mutual_tls import Link


class StackFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ServingStack reads beside objects."""

    mutual_tls: Link | None = None
    """Mutual TLS to its cluster; None where nothing issues certificates: under Crossplane, and offline."""


StackRequest: TypeAlias = Request[ServingStack, StackFacts]
