"""The filters of the gateway module, and the files that they read.

The contract is in ``gateway-module/README.md``.
"""

import json
from typing import Any

import msgspec

from modelplane.gateway import balancing
from modelplane.gateway.balancing import select_in_force
from modelplane.gateway.envoy.envoy_names import HTTP_FILTERS
from modelplane.gateway.module_files.route_files import ServiceEntry, ServiceFile
from modelplane.gateway.route_table import Front, Listener, Route

NAME = "modelplane_gateway"
"""Name by which Envoy looks for the library."""

PRIVATE = "private/"
"""Folder, in Envoy's working directory, of the files that only the gateway may read."""

KEYS = f"{PRIVATE}keys.json"
SHARES = f"{PRIVATE}shares.json"
MODELS = f"{PRIVATE}models.json"
SERVICES = f"{PRIVATE}services.json"
CREDENTIALS = f"{PRIVATE}credentials.json"

ATTEMPTS = "modelplane.attempts"
"""Name of the filter of each attempt, which routes with one backend disable."""

_FORMER_ATTEMPTS = "modelplane.backend"
"""Its name for the module of release 0.9, which needs it on each route."""

REQUEST_TIMEOUT_S = 900
"""Time for a request with its body, until an attempt has all of it: 20 MiB at less than 200 kbit/s."""

ERRORS = "modelplane:"
"""Prefix of the response code details of the module's own answers."""


def build_front(listener: Listener, *, is_former: bool = False) -> dict[str, Any]:
    """Return the filter of requests, which also drops internal headers of the client and counts the hop.

    ``is_former`` says that it is for the module of release 0.9.
    """
    settings = listener.front or Front()
    options: dict[str, Any] = {"authentication": "None", "internalHeaders": True}
    options["record"] = bool(listener.usage_log)
    if settings.keys is not None:
        options |= {"authentication": "APIKey", "keys": f"./{KEYS}", "shares": f"./{SHARES}"}
        if settings.rate_limits is not None:
            options["globalLimits"] = True
    if settings.models is not None:
        options["models"] = f"./{MODELS}"
    if listener.front is not None:
        options["services"] = f"./{SERVICES}"
    if not is_former:
        options |= {"direct": True, "requestTimeoutSeconds": REQUEST_TIMEOUT_S}
    return _filter("modelplane.front", "front", options)


def build_backend(listener: Listener, *, is_former: bool = False) -> dict[str, Any]:
    """Return the filter of each attempt, after its backend has been chosen; it keeps the path itself.

    ``is_former`` says that it is for the module of release 0.9.
    """
    options = {} if listener.front is None else {"credentials": f"./{CREDENTIALS}"}
    return _filter(_FORMER_ATTEMPTS if is_former else ATTEMPTS, "backend", options)


def render_files(listener: Listener) -> dict[str, str]:
    """Return the files that the filters of a listener read."""
    if listener.front is None:
        return {}
    front = listener.front
    settings = {route.name: _settings(listener, route) for route in listener.routes}
    settings = {name: setting for name, setting in settings.items() if setting != ServiceEntry()}
    services = ServiceFile(services=settings)
    read = {KEYS: front.keys, MODELS: front.models, SERVICES: services, CREDENTIALS: front.credentials}
    texts = {path: content.encode().decode() for path, content in read.items() if content is not None}
    return texts if front.keys is None else texts | {SHARES: json.dumps({"gateways": front.gateways})}


def _settings(listener: Listener, route: Route) -> ServiceEntry:
    """Return what the filter of requests knows of a route."""
    entry = select_in_force(route)
    needs_bound = balancing.must_have_bound_route(listener, route)
    bound = balancing.build_bound_route(route).settings.balancing if needs_bound else None
    return msgspec.structs.replace(
        entry,
        balancing=balancing.add_regions(route, entry.balancing),
        bound=balancing.add_regions(route, bound),
    )


def is_required(listener: Listener) -> bool:
    """Return True if a listener without the module would admit requests that it has to refuse."""
    return listener.front is not None and listener.front.keys is not None


def _filter(name: str, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "typed_config": {
            "@type": f"{HTTP_FILTERS}dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {"name": NAME, "do_not_close": True, "metrics_namespace": "modelplane"},
            "filter_name": kind,
            "filter_config": {
                "@type": "type.googleapis.com/google.protobuf.StringValue",
                "value": json.dumps(options, sort_keys=True),
            },
        },
    }
