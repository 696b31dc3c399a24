"""Addresses of a fleet on this machine."""

from modelplane.local import settings
from modelplane.local.home import Home


def listening(home: Home) -> dict[str, str]:
    """Return the addresses of the API server and of the gateway, by name."""
    chosen = settings.load(home).ports
    return {
        "kubernetes": f"https://127.0.0.1:{chosen.api_server}",
        "models": f"http://127.0.0.1:{chosen.gateway}",
    }


def sentence(home: Home) -> str:
    """Return the addresses as a sentence."""
    found = listening(home)
    return f"Kubernetes at {found['kubernetes']}, models at {found['models']}/NAMESPACE/SERVICE/v1"
