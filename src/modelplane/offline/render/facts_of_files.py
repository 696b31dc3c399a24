"""Facts of each kind, from files alone: nothing runs, so a gateway is as its files describe it.

The address that a command's option gives becomes that of the InferenceGateway, so that every reader of
the gateway sees it.
"""

from typing import Any, Final

from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model, Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.compose.facts import EndpointFacts, GatewayFacts, ServiceFacts
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.kinds import COMPOSERS
from modelplane.host.addresses import is_loopback
from modelplane.offline.files.identities import replace_version
from modelplane.offline.files.store import Store
from modelplane.offline.plan.fleet_of_files import build_deployment_facts

_ASSUMED_UID: Final = "assumed:InferenceGateway"


def announce(address: str, store: Store) -> None:
    """Give the InferenceGateway an address in its status; create one if the files have none."""
    for gateway in store.find(fleet_gateway.REQUIREMENT) or (_assumed(),):
        status = {
            **gateway.get("status", {}),
            "address": address,
            "backend": str(_announced_backend(gateway)),
        }
        store.add(replace_version({**gateway, "status": status}))


def find_gateway_backend(store: Store) -> Backend:
    """Return the backend that the InferenceGateway publishes, or would publish; Envoy without one."""
    gateways = store.find(fleet_gateway.REQUIREMENT)
    return _announced_backend(gateways[0]) if gateways else Backend.ENVOY


def is_gateway_local(store: Store) -> bool:
    """Return True if the InferenceGateway publishes a loopback address, as that of a local fleet does."""
    addresses = (
        gateway.get("status", {}).get("address", "") for gateway in store.find(fleet_gateway.REQUIREMENT)
    )
    return any(is_loopback(address.rpartition(":")[0]) for address in addresses)


def _announced_backend(gateway: Object) -> Backend:
    published = gateway.get("status", {}).get("backend")
    if published in list(Backend):
        return Backend(published)
    backend = gateway.get("spec", {}).get("backend")
    return Backend.GATEWAY_API if backend == Backend.GATEWAY_API else Backend.ENVOY


def is_assumed(item: Object) -> bool:
    """Return True if an object is not from a file."""
    return str(item["metadata"].get("uid")) == _ASSUMED_UID


def _assumed() -> Object:
    kind = kind_of(InferenceGateway)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": DEFAULT_NAME, "uid": _ASSUMED_UID},
        "spec": {"backend": str(Backend.ENVOY)},
    }


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
