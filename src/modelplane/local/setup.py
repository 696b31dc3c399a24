"""Everything a local fleet needs on disk before its first process starts.

Each step leaves alone what is there and good, so it runs before every start.
"""

import json
import shutil
import sys

from modelplane.local import kubeconfig, locks, pki, ports
from modelplane.local.certificate_files import Pki
from modelplane.local.control_plane import HEALTH_PATHS, NODE, ControlPlane
from modelplane.local.errors import LocalError
from modelplane.local.home import Home, write_private
from modelplane.local.ports import OWNERS, Ports

_FREE_BYTES = 1 << 30


def make_home(home: Home) -> None:
    """Make the directories of a home; raise ``LocalError`` where this machine cannot hold a fleet."""
    if sys.platform != "linux":
        raise LocalError(
            f"`modelplane up` runs on Linux, not on {sys.platform}: use a Linux virtual machine, or "
            "`modelplane controller` against a cluster you have"
        )
    try:
        home.create()
        free = shutil.disk_usage(home.root).free
    except OSError as error:
        raise LocalError(f"cannot use {home.root}: {error.strerror}: choose another with --home") from error
    if free < _FREE_BYTES:
        raise LocalError(
            f"only {free >> 20} MiB are free where {home.root} is, and a fleet needs {_FREE_BYTES >> 20}: "
            "make room, or choose another place with --home"
        )


def set_up(home: Home) -> Ports:
    """Make ports, certificates and kubeconfigs in a home; return the ports."""
    running = {owner for owner in OWNERS.values() if locks.holder(home.lock(owner)) is not None}
    chosen = ports.load_or_choose(home.settings, running)
    files = Pki(home.pki)
    pki.ensure(files, pki.identities(NODE), pki.now())
    write_private(home.authentication, _authentication())
    plane = ControlPlane(home, chosen, home.root)
    for path, identity in (
        (home.kubeconfig, "admin"),
        (home.controller_kubeconfig, "controller"),
        (home.agent_kubeconfig, "agent"),
        (plane.kubeconfig("kube-controller-manager"), "kube-controller-manager"),
        (plane.kubeconfig("kube-scheduler"), "kube-scheduler"),
    ):
        kubeconfig.ensure(path, kubeconfig.kubeconfig(files, identity, chosen.api_server))
    return chosen


def _authentication() -> str:
    """Return who is let in without a certificate (Kubernetes, ``AuthenticationConfiguration``)."""
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "anonymous": {"enabled": True, "conditions": [{"path": path} for path in HEALTH_PATHS]},
        },
        indent=2,
    )
