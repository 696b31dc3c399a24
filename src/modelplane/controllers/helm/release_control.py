"""Releases: the Helm releases that owners ask for, each cluster's in a task of its own.

A reconcile only hands over and looks: it never waits for Helm. A change calls it again.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.workload_kinds import is_release
from modelplane.controllers.children import adoption, ownership
from modelplane.controllers.helm.cluster_releases import ClusterReleases, Former, Wanted
from modelplane.controllers.helm.helm_program import Host
from modelplane.controllers.helm.instruction import Instruction, read_instruction
from modelplane.controllers.helm.release_status import FIRST_RETRY_S
from modelplane.controllers.runnable import Runnable, cancel_all
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_AFTER_A_BUG_S: Final = 5.0


class Releases(Runnable):
    """Carries out Releases on every cluster."""

    name = "releases"

    def __init__(self, host: Host, first_retry_s: float = FIRST_RETRY_S) -> None:
        self._host = host
        self._first_retry_s = first_retry_s
        self._on: dict[str, ClusterReleases] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def want(self, owner: Object, child: Desired) -> None:
        """Ask for the release of a child."""
        manifest = ownership.stamp(owner, child)
        instruction = read_instruction(manifest)
        if not _LABEL_VALUE.fullmatch(child.key):
            instruction = Rejected(
                subject=f'key "{child.key}" of a Release', detail="is not the value of a label"
            )
        uid, name = owner["metadata"]["uid"], _name_of(owner)
        self._get_or_start(child.cluster).want(
            Wanted(uid, name, child.key, manifest, instruction, child.installer)
        )

    def prune(self, owner: Object, composition: Composition) -> None:
        """Uninstall the releases of an owner that a composition names neither as desired nor as kept."""
        kept = {child.key for child in composition.children if isinstance(child, Keep)}
        for cluster, releases in self._tell_recorded(owner):
            wanted = {
                child.key
                for child in composition.children
                if isinstance(child, Desired) and child.cluster == cluster and is_release(child.manifest)
            }
            releases.keep_only(owner["metadata"]["uid"], wanted | kept)

    def observed(self, owner: Object) -> dict[str, Object]:
        """Return the releases of an owner, by key.

        The first time for a cluster, this starts to read what is installed there.
        """
        found: dict[str, Object] = {}
        for _, releases in self._tell_recorded(owner):
            found |= releases.of(owner["metadata"]["uid"])
        return found

    def loading(self, owner: Object) -> bool:
        """Return True if Helm's storage is being read for the first time; a call of ``on_change`` follows.

        The first time for a cluster, this starts the reading.
        """
        uid = owner["metadata"]["uid"]
        is_awaiting = False
        for _, releases in self._tell_recorded(owner):
            # On every cluster: this also notes that the owner is to be told.
            is_awaiting |= releases.awaited_by(uid)
        return is_awaiting

    def uninstall_all(self, owner: Object, cluster: str) -> list[str]:
        """Uninstall every release of an owner on a cluster, and return those that are still there."""
        releases = dict(self._tell_recorded(owner))[cluster]
        releases.keep_only(owner["metadata"]["uid"], frozenset())
        if releases.problem or releases.loading:
            return [f"the Helm releases on {releases.where} ({releases.problem or 'which are being read'})"]
        return releases.names_of(owner["metadata"]["uid"])

    def _tell_recorded(self, owner: Object) -> Iterator[tuple[str, ClusterReleases]]:
        """Tell the releases of each cluster what an owner records of them, and yield them.

        The first time for a cluster, this starts the task that carries out its releases.
        """
        for cluster, recorded in ownership.helm_releases(owner).items():
            releases = self._get_or_start(cluster)
            former = Former(adoption.former_uids(owner), _name_of(owner))
            releases.know(owner["metadata"]["uid"], recorded, former)
            yield cluster, releases

    def secret_changed(self, secret: Object) -> None:
        """Look again where a Secret of the system's namespace is used."""
        for releases in self._on.values():
            if releases.uses(secret["metadata"]["name"]):
                releases.wake()

    async def close(self) -> None:
        """End every run of Helm."""
        await cancel_all(self._tasks)

    def _get_or_start(self, cluster: str) -> ClusterReleases:
        releases = self._on.get(cluster)
        if releases is None:
            releases = self._on[cluster] = ClusterReleases(cluster, self._host, self._first_retry_s)
            self._tasks.append(asyncio.create_task(_run(releases), name=f"releases {cluster}"))
        return releases


def place_of(child: Desired) -> tuple[str, str, str] | None:
    """Return cluster, namespace and name of the release of a child; None if it is not one to install."""
    instruction = read_instruction(child.manifest) if is_release(child.manifest) else None
    return (child.cluster, *instruction.id) if isinstance(instruction, Instruction) else None


def _name_of(owner: Object) -> str:
    """Return a hash of kind, namespace and name of an owner."""
    metadata = owner["metadata"]
    name = "/".join((owner["kind"], metadata.get("namespace", ""), metadata["name"]))
    return hashlib.sha256(name.encode()).hexdigest()[:16]


async def _run(releases: ClusterReleases) -> None:
    while True:
        try:
            await releases.run()
        except Exception:  # noqa: BLE001 - the releases of one cluster must not end those of the others
            _log.exception("a bug in the releases of cluster %s; they are run again", releases.name)
            await asyncio.sleep(_AFTER_A_BUG_S)
