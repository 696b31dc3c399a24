"""Sources of the kinds that the fleet's gateway serves: what it has of them, and what they may use of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import Model, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_service import ModelService
from modelplane.compose.facts import AutoscalerFacts, EndpointFacts, GatewayFacts, KeyFacts, ServiceFacts
from modelplane.controllers.deciders.autoscaling_loop import Autoscaling
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.controllers.gateway.gateway_controller import GatewayController
from modelplane.controllers.gateway.key_admission import Admission
from modelplane.controllers.interests import OwnerKey

_SERVICE = kind_name(ModelService)


@dataclass(frozen=True)
class GatewaySource:
    """Tells an InferenceGateway of the Envoy that the controllers configure."""

    kind: ClassVar[type[Model]] = InferenceGateway
    gateway: Callable[[], GatewayController]
    is_local: bool

    def of(self, _owner: InferenceGateway) -> GatewayFacts:
        """Return the facts of the gateway."""
        address = self.gateway().address
        return GatewayFacts(
            address.address,
            problem=address.problem,
            tls_problem=address.tls_problem,
            without_module=address.without_module,
            asks_for_keys=address.asks_for_keys,
            is_local=self.is_local,
        )


@dataclass(frozen=True)
class ServiceSource:
    """Tells a ModelService of the gateway, and of its part of it."""

    kind: ClassVar[type[Model]] = ModelService
    gateway: Callable[[], GatewayController]
    is_local: bool
    budgets: Budgets

    def of(self, owner: ModelService) -> ServiceFacts:
        """Return the facts of a service."""
        gateway = self.gateway()
        return ServiceFacts(
            gateway_without_module=gateway.address.without_module,
            gateway_is_local=self.is_local,
            tier_budgets=self.budgets.tiers(owner),
            endpoint_share=gateway.share(OwnerKey(_SERVICE, owner.metadata.namespace, owner.metadata.name)),
        )


@dataclass(frozen=True)
class EndpointSource:
    """Tells a ModelEndpoint of the gateway."""

    kind: ClassVar[type[Model]] = ModelEndpoint
    gateway: Callable[[], GatewayController]
    is_local: bool

    def of(self, _owner: ModelEndpoint) -> EndpointFacts:
        """Return the facts of an endpoint."""
        return EndpointFacts(self.is_local, self.gateway().address.without_module)


@dataclass(frozen=True)
class KeySource:
    """Tells a ModelKey whether the gateway has it, and what it has spent."""

    kind: ClassVar[type[Model]] = ModelKey
    admission: Admission
    budgets: Budgets

    def of(self, owner: ModelKey) -> KeyFacts:
        """Return the facts of a key."""
        return KeyFacts(
            self.admission.problem(owner),
            refused=self.admission.refused(owner),
            budgets=self.budgets.state(owner),
        )


@dataclass(frozen=True)
class AutoscalerSource:
    """Tells an InferenceAutoscaler what was decided from the gateway's counts."""

    kind: ClassVar[type[Model]] = InferenceAutoscaler
    gateway: Callable[[], GatewayController]
    autoscaling: Autoscaling

    def of(self, owner: InferenceAutoscaler) -> AutoscalerFacts:
        """Return the facts of an autoscaler."""
        return AutoscalerFacts(self.autoscaling.state(owner), self.gateway().address.without_module)
