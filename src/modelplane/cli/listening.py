"""Where a fleet of this machine can be reached."""

from modelplane.local import settings
from modelplane.local.home import Home


def listening(home: Home) -> dict[str, str]:
    """Return the address of the API server and that of the front door, by what is found there."""
    chosen = settings.load(home).ports
    return {
        "kubernetes": f"https://127.0.0.1:{chosen.api_server}",
        "models": f"http://127.0.0.1:{chosen.gateway}",
    }


def sentence(home: Home) -> str:
    """Return the same for people."""
    found = listening(home)
    return f"Kubernetes at {found['kubernetes']}, models at {found['models']}/NAMESPACE/SERVICE/v1"
