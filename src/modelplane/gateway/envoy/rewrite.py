"""Rewriting of a request's path and Host for its backend.

The backends of one route need different prefixes, and a request that fails at
one of them is retried at another. Envoy rewrites a path once, before the first
attempt. The filters here rewrite it for each attempt, below the router, and
always from the path that the client sent. See
``docs/decisions/0008-envoy-by-files.md``.
"""

from typing import Any

from modelplane.gateway.envoy import loops
from modelplane.gateway.envoy.type_urls import HTTP_FILTERS
from modelplane.gateway.table import Backend, Route

KEY = "modelplane.rewrite"
"""Name of the rewriting filter, and of the metadata that it reads."""

_PATH = "modelplane.path"
_HEADER = "x-modelplane-"
_PER_BACKEND = ("prefix", "overlap", "host")

_SCRIPT = f"""
local function take(headers, key)
  local value = headers:get("{_HEADER}" .. key)
  headers:remove("{_HEADER}" .. key)
  return value or ""
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local prefix, overlap, host = take(headers, "prefix"), take(headers, "overlap"), take(headers, "host")
  if host ~= "" then headers:replace(":authority", host) end
  local path = handle:streamInfo():filterState():get("{_PATH}")
  if prefix ~= "" then
    local rest = path:sub(#handle:metadata():get("strip") + 1):gsub("^/", "", 1)
    if overlap ~= "" and rest:sub(1, #overlap) == overlap and (rest .. "/"):find("^[/?]", #overlap + 1) then
      rest = rest:sub(#overlap + 1):gsub("^/", "", 1)
    end
    path = prefix .. rest
  end
  headers:replace(":path", path)
end
"""


def of_route(route: Route) -> dict[str, Any]:
    """Return the metadata of an Envoy route: the prefix to remove from the path."""
    return {"filter_metadata": {KEY: {"strip": route.prefix.rstrip("/")}}}


def of_backend(backend: Backend) -> dict[str, Any]:
    """Return the metadata of an Envoy cluster: the prefix that replaces it, and the Host."""
    return {"filter_metadata": {KEY: {key: getattr(backend, key) for key in _PER_BACKEND}}}


def before_router() -> list[dict[str, Any]]:
    """Return the filters that drop internal headers of the client, count the hop, and save the path."""
    remembered = {
        "object_key": _PATH,
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": "%REQ(:path)%"}},
    }
    # A client's x-envoy headers would change timeouts and retries.
    dropped = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in ("x-envoy-", _HEADER)]
    return [
        {
            "name": "modelplane.internal_headers",
            "typed_config": {
                "@type": f"{HTTP_FILTERS}header_mutation.v3.HeaderMutation",
                "mutations": {"request_mutations": [*dropped, loops.mark()]},
            },
        },
        {
            "name": _PATH,
            "typed_config": {
                "@type": f"{HTTP_FILTERS}set_filter_state.v3.Config",
                "on_request_headers": [remembered],
            },
        },
    ]


def below_router() -> list[dict[str, Any]]:
    """Return the filters of each attempt, after its backend has been chosen."""
    handed_over = [
        {
            "append": {
                "header": {"key": f"{_HEADER}{key}", "value": f"%CLUSTER_METADATA({KEY}:{key})%"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        }
        for key in _PER_BACKEND
    ]
    return [
        {
            "name": "modelplane.backend",
            "typed_config": {
                "@type": f"{HTTP_FILTERS}header_mutation.v3.HeaderMutation",
                "mutations": {"request_mutations": handed_over},
            },
        },
        {
            "name": KEY,
            "typed_config": {
                "@type": f"{HTTP_FILTERS}lua.v3.Lua",
                "default_source_code": {"inline_string": _SCRIPT},
            },
        },
        {
            "name": "envoy.filters.http.upstream_codec",
            "typed_config": {"@type": f"{HTTP_FILTERS}upstream_codec.v3.UpstreamCodec"},
        },
    ]
