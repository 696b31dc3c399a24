"""The fleet's gateway: its backend, and the source of its configuration.

The gateway's controller configures Envoy from the ModelServices and ModelEndpoints themselves. Any other
backend reads Gateway API, so services and endpoints compose its objects.
"""

from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.compose.composition import Requirement

KEY = "gateway"

REQUIREMENT = Requirement(KEY, API_VERSION, kind_name(InferenceGateway), name=DEFAULT_NAME)


def proxy(found: tuple[Object, ...]) -> str:
    """Return the backend in the gateway's status; empty without a gateway, or until it is known."""
    return str(found[0].get("status", {}).get("backend", "")) if found else ""


def unspoken(found: tuple[Object, ...]) -> str:
    """Return a message while a gateway has no backend in its status yet; empty otherwise."""
    if not found or proxy(found):
        return ""
    return f'InferenceGateway "{DEFAULT_NAME}" has no status.backend yet'


def reads_gateway_api(proxy_name: str) -> bool:
    """Return True if a backend reads its routes from Gateway API objects."""
    return proxy_name not in ("", Backend.ENVOY)
