"""Facts of each kind, as files tell them: nothing runs, so a gateway is what its files say."""

from typing import Any

from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import Model, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.compose.facts import EndpointFacts, GatewayFacts, ServiceFacts
from modelplane.compose.kinds import COMPOSERS
from modelplane.offline.files.store import Store
from modelplane.offline.plan.fleet_of_files import build_deployment_facts
from modelplane.offline.render.gateways import find_gateway_backend, is_gateway_local


def find_facts(owner: Model, store: Store, gateway_address: str = "") -> Any:
    """Return the facts of an owner; those that nothing offline knows are absent."""
    match owner:
        case InferenceGateway():
            return GatewayFacts(
                gateway_address,
                find_gateway_backend(store),
                asks_for_keys=bool(gateway_address),
                is_local=is_gateway_local(store),
            )
        case ModelDeployment():
            return build_deployment_facts(owner)
        case ModelEndpoint():
            return EndpointFacts(is_gateway_local(store))
        case ModelService():
            return ServiceFacts(find_gateway_backend(store), gateway_is_local=is_gateway_local(store))
    return COMPOSERS[kind_name(type(owner))].facts()
