"""Everything a local fleet needs on disk before its first process starts.

Each step keeps what exists and is valid, so it runs before every start.
"""

import json
import sys

from modelplane.host.errors import LocalError
from modelplane.host.private_files import write_private
from modelplane.local import settings
from modelplane.local.home import Home, find_space_problem
from modelplane.local.kubernetes import identity_kubeconfigs, pki, ports
from modelplane.local.kubernetes.control_plane import HEALTH_PATHS, ControlPlane, list_control_planes
from modelplane.local.kubernetes.identity_kubeconfigs import Access
from modelplane.local.settings import AS_BEFORE, Choice, Settings
from modelplane.local.supervision import locks
from modelplane.local.supervision.processes import LEADER


def make_home(home: Home) -> None:
    """Create the directories of a home; raise ``LocalError`` if this machine cannot hold a fleet."""
    if sys.platform != "linux":
        raise LocalError(
            f"`modelplane up` runs on Linux, not on {sys.platform}: use a Linux virtual machine, or "
            "`modelplane controller` against a cluster you have"
        )
    try:
        if home.has_other_contents():
            raise LocalError(f"{home.root} holds other things than a fleet: choose another with --home")
        home.create()
        lacking = find_space_problem(home)
    except OSError as error:
        raise LocalError(f"cannot use {home.root}: {error.strerror}: choose another with --home") from error
    if lacking:
        raise LocalError(f"{lacking}, or choose another place with --home")


def set_up(home: Home, choice: Choice = AS_BEFORE) -> Settings:
    """Make settings, certificates and kubeconfigs in a home; return the settings."""
    held = {
        path for path in home.run.glob("*.lock") if path != home.turn and locks.find_holder(path) is not None
    }
    running = {path.stem for path in held}
    # The supervisor of a running fleet claims its ports.
    is_free = ports.can_listen if LEADER in running else ports.claim_free
    chosen = settings.choose(home, choice, running, is_free)
    planes = list_control_planes(home, chosen)
    for plane in planes:
        plane.home.create()
        pki.ensure(plane.pki, pki.list_identities(plane.node), pki.get_now())
        write_private(plane.home.authentication, _authentication())
        for path, identity in (
            (plane.home.controller_kubeconfig, "controller"),
            (plane.home.agent_kubeconfig, "agent"),
            (plane.find_kubeconfig("kube-controller-manager"), "kube-controller-manager"),
            (plane.find_kubeconfig("kube-scheduler"), "kube-scheduler"),
        ):
            identity_kubeconfigs.ensure(path, identity_kubeconfigs.build_kubeconfig(_access(plane, identity)))
    # The user is an administrator of every cluster, with a context for each in one file.
    for path, reachable in (
        (home.kubeconfig, planes),
        *((further.home.kubeconfig, [further]) for further in planes[1:]),
    ):
        identity_kubeconfigs.ensure(
            path, identity_kubeconfigs.build_kubeconfig(*(_access(cluster, "admin") for cluster in reachable))
        )
    return chosen


def _access(plane: ControlPlane, identity: str) -> Access:
    return Access(plane.context, plane.pki, identity, plane.ports.api_server)


def _authentication() -> str:
    """Return the access without a certificate (Kubernetes, ``AuthenticationConfiguration``)."""
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "anonymous": {"enabled": True, "conditions": [{"path": path} for path in HEALTH_PATHS]},
        },
        indent=2,
    )
