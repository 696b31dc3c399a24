"""Choice of the API server, as by kubectl: a named file, ``KUBECONFIG``, or the user's own."""

import os
from pathlib import Path

from modelplane.controllers.fleet_resources import known
from modelplane.kube.client import Client

_MANAGER = "modelplane-install"
"""The field manager of what is installed, apart from that of the controllers."""


class NoCluster(Exception):
    """There is no kubeconfig, or none that can be used; the message says what to do."""


def connect(kubeconfig: Path | None, context: str) -> Client:
    """Return a client; nothing is sent yet. Raises ``NoCluster``."""
    path = kubeconfig or _default()
    try:
        return Client.from_kubeconfig(
            str(path), context=context, field_manager=_MANAGER, timeout_s=30.0, known=known
        )
    except ValueError as error:
        raise NoCluster(f'{error}, in "{path}": name another with --kubeconfig or --context') from error


def _default() -> Path:
    named = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if len(named) > 1:
        raise NoCluster("KUBECONFIG names several files: name one of them with --kubeconfig")
    return Path(named[0]) if named else users_own()


def users_own() -> Path:
    """Return where kubectl keeps what it knows of clusters."""
    return Path.home() / ".kube" / "config"
