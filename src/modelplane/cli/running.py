"""Whether the fleet of a home can be talked to, and what to do where it cannot.

One file and one lock are looked at, and nothing heavy is imported: every
``modelplane kubectl`` passes here.
"""

from modelplane.cli.errors import UserError
from modelplane.local import locks
from modelplane.local.home import Home


def require_fleet(home: Home) -> None:
    """Raise ``UserError`` where no fleet was ever started."""
    if not home.kubeconfig.exists():
        raise UserError(f"there is no fleet in {home.root}: run `modelplane up`")


def runs(home: Home) -> bool:
    """Whether the API server of a home runs."""
    return locks.holder(home.lock("control-plane")) is not None


def require_running(home: Home) -> None:
    """Raise ``UserError`` where there is no fleet, or its API server does not run."""
    require_fleet(home)
    if not runs(home):
        raise UserError(f"the fleet in {home.root} does not run: run `modelplane up`")
