"""Facts of the fleet's gateway: what its caller alone knows of the process that serves requests."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from modelplane.api.inference_gateway import Backend, InferenceGateway
from modelplane.api.meta import Object
from modelplane.compose.composition import Request
from modelplane.gateway.tokens import GatewayKeys


class GatewayFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of an InferenceGateway reads beside objects."""

    address: str = ""
    """Address of the fleet's gateway; empty while it has none, or if it is unknown."""
    proxy: Backend = Backend.ENVOY
    """Backend of the fleet's gateway with the caller. Its status may still name an earlier one."""
    problem: str = ""
    """The reason for which the gateway's address is unknown."""
    tls_problem: str = ""
    """The problem of the certificates of the gateway; empty if there is none, or without TLS."""
    without_module: str = ""
    """The reason for which the gateway's Envoy runs without its module; empty if it has it."""
    asks_for_keys: bool = False
    """True if the gateway's present configuration admits requests with a key only."""
    pods: Mapping[str, Object] = {}
    """Manifests of the pods of Envoy, by key, where the InferenceGateway composes them: under Crossplane."""
    keys: GatewayKeys | None = None
    """Keys of the gateway, where the InferenceGateway composes their Secret: under Crossplane.

    None also while they are not known.
    """
    has_tls: bool | None = None
    """True if the gateway's present configuration serves TLS only; None if that follows from the spec."""
    envoy_is_needed_by: str = ""
    """Services that only the pods of Envoy reach, although another backend is asked for; else empty."""
    is_local: bool = False
    """True if the fleet's gateway accepts requests on a loopback address only."""


GatewayRequest: TypeAlias = Request[InferenceGateway, GatewayFacts]
