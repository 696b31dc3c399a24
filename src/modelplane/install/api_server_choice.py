"""Choice of the API server, as by kubectl: a named file, ``KUBECONFIG``, or the user's own."""

import os
from pathlib import Path

from modelplane.controllers.fleet_resources import find_known
from modelplane.kube import connection
from modelplane.kube.client import Client
from modelplane.user_error import UserError


class NoCluster(UserError):
    """There is no usable kubeconfig; the message has the remedy."""


def connect(kubeconfig: Path | None, context: str, field_manager: str, timeout_s: float) -> Client:
    """Return a client; nothing is sent yet. Raises ``NoCluster``."""
    path = kubeconfig or _default()
    try:
        return Client.from_kubeconfig(
            str(path), context=context, field_manager=field_manager, timeout_s=timeout_s, known=find_known
        )
    except ValueError as error:
        raise _explain(error, path) from error


def find_namespace(kubeconfig: Path | None, context: str) -> str:
    """Return the namespace of the current context, or of a named one. Raises ``NoCluster``."""
    path = kubeconfig or _default()
    try:
        return connection.find_namespace(str(path), context)
    except ValueError as error:
        raise _explain(error, path) from error


def _explain(error: ValueError, path: Path) -> NoCluster:
    return NoCluster(
        f'{error}, in "{path}": select another kubeconfig or context with --kubeconfig or --context'
    )


def _default() -> Path:
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if len(named) > 1:
        raise NoCluster("KUBECONFIG contains several files: select one with --kubeconfig")
    return Path(named[0]) if named else find_default()


def find_default() -> Path:
    """Return the path of kubectl's default kubeconfig."""
    return Path.home() / ".kube" / "config"
