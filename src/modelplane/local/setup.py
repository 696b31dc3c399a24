"""Everything a local fleet needs on disk before its first process starts.

Each step keeps what exists and is valid, so it runs before every start. Clusters are registered afterwards
(``local/kubernetes/cluster_registration.py``).

A kubeconfig contains the certificates of its identity. The file alone grants the identity, and can be moved
(Kubernetes, "Organizing Cluster Access Using kubeconfig Files").
"""

import base64
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from modelplane.host.errors import LocalError
from modelplane.host.file_system import write_private
from modelplane.local import ports, settings
from modelplane.local.home import Home, find_space_problem
from modelplane.local.kubernetes import pki
from modelplane.local.kubernetes.control_plane import HEALTH_PATHS, ControlPlane, Pki, list_control_planes
from modelplane.local.settings import AS_BEFORE, Choice, LocalSettings
from modelplane.local.supervision import locks
from modelplane.local.supervision.processes import LEADER


@dataclass(frozen=True, slots=True)
class Access:
    """One identity at the API server on a port of 127.0.0.1."""

    context: str
    """Its name in the kubeconfig, and its API server."""
    pki: Pki
    identity: str
    port: int


def make_home(home: Home) -> None:
    """Create the directories of a home; raise ``LocalError`` if this machine cannot hold a fleet."""
    if sys.platform != "linux":
        raise LocalError(
            f"`modelplane up` runs on Linux, not on {sys.platform}: use a Linux virtual machine, or run "
            "`modelplane controller` with an existing cluster"
        )
    try:
        if home.has_other_contents():
            raise LocalError(
                f"{home.root} contains files that don't belong to a fleet: choose another directory with "
                "--home"
            )
        home.create()
        lacking = find_space_problem(home)
    except OSError as error:
        raise LocalError(
            f"cannot use {home.root}: {error.strerror}: choose another directory with --home"
        ) from error
    if lacking:
        raise LocalError(f"{lacking}, or choose another directory with --home")


def set_up(home: Home, choice: Choice = AS_BEFORE) -> LocalSettings:
    """Make settings, certificates and kubeconfigs in a home; return the settings."""
    running = {
        lock.stem
        for lock in home.run.glob("*.lock")
        if lock != home.turn and locks.find_holder(lock) is not None
    }
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
            ensure_kubeconfig(path, build_kubeconfig(_access(plane, identity)))
    # The user is an administrator of every cluster, with a context for each in one file.
    for path, reachable in (
        (home.kubeconfig, planes),
        *((further.home.kubeconfig, [further]) for further in planes[1:]),
    ):
        ensure_kubeconfig(path, build_kubeconfig(*(_access(cluster, "admin") for cluster in reachable)))
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


def build_kubeconfig(*accesses: Access) -> str:
    """Return a kubeconfig with a context for each access; the first one is current."""
    contexts = [{"cluster": access.context, "user": access.context} for access in accesses]
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": access.context,
                    "cluster": {
                        "server": f"https://127.0.0.1:{access.port}",
                        "certificate-authority-data": _embedded(access.pki.authority),
                    },
                }
                for access in accesses
            ],
            "users": [
                {
                    "name": access.context,
                    "user": {
                        "client-certificate-data": _embedded(access.pki.find_certificate(access.identity)),
                        "client-key-data": _embedded(access.pki.find_key(access.identity)),
                    },
                }
                for access in accesses
            ],
            "contexts": [{"name": context["user"], "context": context} for context in contexts],
            "current-context": accesses[0].context,
        },
        sort_keys=False,
    )


def ensure_kubeconfig(path: Path, content: str) -> None:
    """Write a kubeconfig if its content differs, so its modification time is that of a change."""
    if not path.exists() or path.read_text() != content:
        write_private(path, content)


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
