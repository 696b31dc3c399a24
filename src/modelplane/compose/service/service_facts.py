"""Facts of a service: what its caller knows of the gateway, and what the service may use of it."""

from typing import TypeAlias

import msgspec

from modelplane.api.inference_gateway import Backend
from modelplane.api.model_service import ModelService
from modelplane.compose.composition import Request
from modelplane.gateway.services import EndpointShare
from modelplane.gateway.usage.spent_budgets import TierBudgets


class ServiceFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelService reads beside objects."""

    proxy: Backend = Backend.ENVOY
    """Backend of the fleet's gateway with the caller. The gateway's status may still name an earlier one."""
    gateway_without_module: str = ""
    """The reason for which the gateway's Envoy runs without its module; empty if it has it."""
    gateway_is_local: bool = False
    """True if the fleet's gateway accepts requests on a loopback address only."""
    tier_budgets: TierBudgets | None = None
    """The state of its budgets; None where nothing counts requests."""
    endpoint_share: EndpointShare | None = None
    """The endpoints that it may route to; None where nothing bounds a namespace."""


ServiceRequest: TypeAlias = Request[ModelService, ServiceFacts]
