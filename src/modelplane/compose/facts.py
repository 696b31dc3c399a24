"""Facts of each kind: what the caller of a composition knows that no object has.

One type for each kind: the caller has the control loops, the gateway's process, or Crossplane's state.
Those of clusters, serving stacks and deployments are with their composers.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_gateway import Backend, InferenceGateway
from modelplane.api.meta import Object
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.compose.composition import Request, Silence
from modelplane.deciders.autoscaling.autoscaler_state import AutoscalerState
from modelplane.gateway.services import EndpointShare
from modelplane.gateway.tokens import GatewayKeys
from modelplane.gateway.usage.spent_budgets import KeyBudgets, TierBudgets


class AutoscalerFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of an InferenceAutoscaler reads beside objects."""

    autoscaling: AutoscalerState | None = None
    """Last decision for it; None where nothing scales."""
    gateway_without_module: str = ""
    """The reason for which the gateway's Envoy runs without its module; empty if it has it."""


AutoscalerRequest: TypeAlias = Request[InferenceAutoscaler, AutoscalerFacts]


class CacheFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelCache reads beside objects."""

    unobserved: frozenset[str] = frozenset()
    """Keys of children that were created and whose state is not known yet."""


CacheRequest: TypeAlias = Request[ModelCache, CacheFacts]


class EndpointFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelEndpoint reads beside objects."""

    gateway_is_local: bool = False
    """True if the fleet's gateway accepts requests on a loopback address only."""
    gateway_without_module: str = ""
    """The reason for which the gateway's Envoy runs without its module; empty if it has it."""


EndpointRequest: TypeAlias = Request[ModelEndpoint, EndpointFacts]


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


class KeyFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelKey reads beside objects."""

    problem: str | None = None
    """The reason for which the key is not, or not wholly, in force; None if unknown."""
    is_reported: bool = True
    """False if the caller cannot know which ModelKeys the gateway has: Crossplane."""
    refused: frozenset[str] = frozenset()
    """Its hashes that belong to a key of another namespace."""
    budgets: KeyBudgets | None = None
    """The state of its budgets; None where nothing counts what keys use."""


KeyRequest: TypeAlias = Request[ModelKey, KeyFacts]


class ReplicaFacts(msgspec.Struct, frozen=True):
    """Facts that the composition of a ModelReplica reads beside objects."""

    routed_by: str = ""
    """The objects that still route to its endpoint, if routes follow endpoints with a delay."""
    unobserved: frozenset[str] = frozenset()
    """Keys of children that were created and whose state is not known yet."""
    silence: Silence | None = None
    """The connection error that writing or reading its objects on its cluster ended with."""


ReplicaRequest: TypeAlias = Request[ModelReplica, ReplicaFacts]


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
    is_route_loaded: bool = True
    """False while the configuration in force of the fleet's Envoy leads to none of its endpoints."""


ServiceRequest: TypeAlias = Request[ModelService, ServiceFacts]
