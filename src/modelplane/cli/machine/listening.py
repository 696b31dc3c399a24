"""Addresses of a fleet on this machine."""

from modelplane.gateway.envoy.envoy_names import has_tls
from modelplane.local import settings
from modelplane.local.home import Home


def find_addresses(home: Home) -> dict[str, str]:
    """Return the addresses of the API server and of the gateway, by name."""
    chosen = settings.load(home).ports
    files = (path.relative_to(home.envoy).as_posix() for path in home.envoy.glob("*/*.json"))
    scheme = "https" if has_tls(files) else "http"
    return {
        "kubernetes": f"https://127.0.0.1:{chosen.api_server}",
        "models": f"{scheme}://127.0.0.1:{chosen.gateway}",
    }


def describe_addresses(home: Home) -> str:
    """Return the addresses as a sentence."""
    from modelplane.proxy import module

    addresses = find_addresses(home)
    models = addresses["models"]
    by_model = "" if module.find_missing(home.envoy) else f", or {models}/v1 with model NAMESPACE/SERVICE"
    return f"Kubernetes at {addresses['kubernetes']}, models at {models}/NAMESPACE/SERVICE/v1{by_model}"
