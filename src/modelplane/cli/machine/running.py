"""The fleet of a home on this machine: whether it runs, and its addresses.

The check reads one file and one lock, and imports nothing heavy: every
``modelplane kubectl`` runs it.
"""

from modelplane.gateway.envoy.envoy_names import has_tls
from modelplane.local import settings
from modelplane.local.home import Home
from modelplane.local.supervision import locks
from modelplane.user_error import UserError


def refuse_local_fleet(home: Home | None) -> None:
    """Raise ``UserError`` if the controllers of a local fleet run: ``up`` has installed it."""
    if home is not None and locks.find_holder(home.lock("controller")) is not None:
        raise UserError(
            f"`modelplane up` manages the control plane of the local fleet in {home.root}: name another "
            "control plane with --kubeconfig"
        )


def require_fleet(home: Home) -> None:
    """Raise ``UserError`` if no fleet was ever started."""
    if not home.kubeconfig.exists():
        raise UserError(f"there is no fleet in {home.root}: run `modelplane up`")


def is_running(home: Home) -> bool:
    """Return True if the API server of a home runs."""
    return locks.find_holder(home.lock("control-plane")) is not None


def require_running(home: Home) -> None:
    """Raise ``UserError`` if there is no fleet, or its API server does not run."""
    require_fleet(home)
    if not is_running(home):
        raise UserError(f"the fleet in {home.root} is not running: run `modelplane up`")


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
