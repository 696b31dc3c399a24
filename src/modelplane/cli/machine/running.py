"""Check that the fleet of a home runs.

The check reads one file and one lock, and imports nothing heavy: every
``modelplane kubectl`` runs it.
"""

from modelplane.cli.errors import UserError
from modelplane.local.home import Home
from modelplane.local.supervision import locks


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
        raise UserError(f"the fleet in {home.root} does not run: run `modelplane up`")
