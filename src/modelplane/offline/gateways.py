"""The fleet's gateway where files leave out its address, and a command is told it.

One rule: an address that a command is given is that of the InferenceGateway, so that whatever reads the
gateway sees it.
"""

from typing import Final

from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.kinds import kind_of
from modelplane.compose import fleet_gateway
from modelplane.compose.composition import Object
from modelplane.offline.identities import versioned
from modelplane.offline.store import Store

_ASSUMED_UID: Final = "assumed:InferenceGateway"


def announce(address: str, store: Store) -> None:
    """Give the InferenceGateway an address in its status; make one where the files have none."""
    for gateway in store.find(fleet_gateway.REQUIREMENT) or (_assumed(),):
        status = {**gateway.get("status", {}), "address": address, "backend": str(announced_backend(gateway))}
        unversioned = {key: value for key, value in gateway["metadata"].items() if key != "resourceVersion"}
        store.add(versioned({**gateway, "status": status, "metadata": unversioned}))


def announced_backend(gateway: Object) -> Backend:
    """Return what an InferenceGateway says, or would say, that it is; Envoy for any other object."""
    said = gateway.get("status", {}).get("backend") or gateway.get("spec", {}).get("backend")
    return Backend.GATEWAY_API if said == Backend.GATEWAY_API else Backend.ENVOY


def is_assumed(item: Object) -> bool:
    """Return True if no file has an object."""
    return str(item["metadata"].get("uid")) == _ASSUMED_UID


def _assumed() -> Object:
    kind = kind_of(InferenceGateway)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": DEFAULT_NAME, "uid": _ASSUMED_UID},
        "spec": {"backend": str(Backend.ENVOY)},
    }
