"""Releases of one cluster: one run of Helm at a time, in a task of its own.

Every turn reads Helm's storage on the cluster, decides one step and carries it out. So the task continues
wherever an earlier one ended, and runs no process if nothing is to be done. What cannot be read stays.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cluster_origin import KubeconfigSecret
from modelplane.api.rejected import Rejected
from modelplane.controllers.helm import helm_storage, release_status
from modelplane.controllers.helm.helm_program import OWN_INSTALLER, HelmFailed, Host, arguments
from modelplane.controllers.helm.helm_storage import Action, Details, History, Step, next_step
from modelplane.controllers.helm.instruction import USUAL_WAIT_S, Instruction, ReleaseId
from modelplane.controllers.helm.release_status import Failures, Unsynced
from modelplane.controllers.helm.release_values import hide_secrets, merge_values
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import SECRETS, Object
from modelplane.telemetry.traces import make_fields

_log = logging.getLogger(__name__)

_READ_AGAIN_S = 300.0
"""Time after which the storage is read again although nothing was to be done: others use Helm too."""
_RETRY_S = 10.0
_OWN = "of the control plane"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A release that an owner asks for."""

    uid: str
    owner: str
    """A hash of the owner's kind, namespace and name."""
    key: str
    manifest: Object
    instruction: Instruction | Rejected
    installer: KubeconfigSecret | None


@dataclass(frozen=True, slots=True)
class Former:
    """The owner before it was restored: its releases have an earlier uid, and the same name."""

    uids: tuple[str, ...] = ()
    name: str = ""
    """A hash of the owner's kind, namespace and name."""

    def made(self, history: History) -> bool:
        """Return True if a release was made for it."""
        named = history.last.labels.get(labels.RELEASE_OWNER_NAME) == self.name
        return named and history.owner_uid in self.uids


@dataclass(frozen=True, slots=True)
class _Turn:
    """A step that is due."""

    step: Step
    id: ReleaseId
    instruction: Instruction | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    """The labels of the revision."""
    digest: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()


class ClusterReleases:
    """The releases that owners ask for on one cluster, and those that Helm's storage there has."""

    def __init__(self, name: str, host: Host, first_retry_s: float) -> None:
        """``name`` is that of an InferenceCluster; empty is the control plane's own cluster."""
        self.name = name
        self.where = f'"{name}"' if name else "the control plane"
        """The cluster in messages."""
        self._host = host
        self._wake = asyncio.Event()
        self._wanted: dict[tuple[str, str], Wanted] = {}
        self._recorded: dict[str, frozenset[ReleaseId]] = {}
        self._former: dict[str, Former] = {}
        self._staying: dict[str, frozenset[str]] = {}
        """By owner, the keys of releases to keep; the owner's others are uninstalled."""
        self._stored: dict[ReleaseId, History] | None = None
        self._details: dict[tuple[str, str, str], Details] = {}
        self._why: dict[ReleaseId, Unsynced] = {}
        self._awaiting: set[str] = set()
        self._failures = Failures(first_retry_s)
        self._running: tuple[ReleaseId, asyncio.Task[None]] | None = None
        self._client: tuple[Mapping[str, Any], Client] | None = None
        self.problem = ""
        """The cause if the storage cannot be read; empty otherwise."""

    @property
    def loading(self) -> bool:
        """True until the storage has been read, or is known to be unreadable."""
        return self._stored is None and not self.problem

    def awaited_by(self, uid: str) -> bool:
        """Return True while ``loading``; the owner is then told of its end."""
        if self.loading:
            self._awaiting.add(uid)
        return self.loading

    def uses(self, secret: str) -> bool:
        """Return True if a release has values of a Secret, or is installed with it."""
        return any(
            (release.installer is not None and release.installer.name == secret)
            or (not self.name and secret == OWN_INSTALLER.name)
            or (
                isinstance(release.instruction, Instruction)
                and any(source.name == secret for source in release.instruction.values_from)
            )
            for release in self._wanted.values()
        )

    def want(self, wanted: Wanted) -> None:
        """Ask for a release."""
        known = self._wanted.get((wanted.uid, wanted.key))
        if known != wanted:
            self._wanted[wanted.uid, wanted.key] = wanted
            self._supersede(known)
            self.wake()

    def know(self, uid: str, recorded: Collection[tuple[str, str]], former: Former) -> None:
        """Take the releases that an owner records as its own; no other is taken for one of its."""
        self._recorded[uid] = frozenset(ReleaseId(*row) for row in recorded)
        self._former[uid] = former

    def keep_only(self, uid: str, staying: Collection[str]) -> None:
        """Uninstall the releases of an owner, except those with some keys."""
        dropped = [row for row in self._wanted if row[0] == uid and row[1] not in staying]
        for gone in dropped:
            self._supersede(self._wanted.pop(gone))
        if dropped or self._staying.get(uid) != frozenset(staying):
            self._staying[uid] = frozenset(staying)
            self.wake()

    def _supersede(self, wanted: Wanted | None) -> None:
        """End the run of Helm for what is no longer asked for; it may wait for long."""
        if wanted is None or isinstance(wanted.instruction, Rejected) or self._running is None:
            return
        release, run = self._running
        if release == wanted.instruction.id:
            run.cancel()

    def wake(self) -> None:
        """Look again."""
        self._wake.set()

    def of(self, uid: str) -> dict[str, Object]:
        """Return the releases of an owner as Releases with their status, by key."""
        found: dict[str, Object] = {}
        for history in self._stored_for(uid):
            if history.key:
                details = self._details_of(history)
                unsynced = self._unreadable or self._why.get(history.id)
                item = release_status.stored(history, details)
                found[history.key] = release_status.report(item, history, details, unsynced)
        for (owner, key), wanted in self._wanted.items():
            if owner == uid:
                found[key] = self._reported(wanted)
        return found

    def names_of(self, uid: str) -> list[str]:
        """Return the stored releases of an owner as messages name them."""
        named = []
        for history in self._stored_for(uid):
            why = self._why.get(history.id)
            named.append(f"{history.id} on {self.where}" + (f" ({why.message})" if why else ""))
        return named

    def _stored_for(self, uid: str) -> list[History]:
        """Return the stored releases of an owner: those that both sides record."""
        stored, recorded = self._stored or {}, self._recorded.get(uid, frozenset())
        former = self._former.get(uid, Former())
        found = [stored[name] for name in recorded if name in stored]
        return [history for history in found if history.owner_uid == uid or former.made(history)]

    async def run(self) -> None:
        """Carry out what is asked for, until cancelled."""
        try:
            while True:
                self._wake.clear()
                pause_s = await self._advance()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
        finally:
            await self._close()

    @property
    def _unreadable(self) -> Unsynced | None:
        return Unsynced(release_status.UNREADABLE, self.problem) if self.problem else None

    def _reported(self, wanted: Wanted) -> Object:
        if isinstance(wanted.instruction, Rejected):
            refused = Unsynced(release_status.FAILED, wanted.instruction.message)
            return release_status.report(wanted.manifest, None, Details(), refused)
        history = (self._stored or {}).get(wanted.instruction.id)
        if history is not None and not _is_for(history, wanted):
            other = "belongs to another owner" if history.owner_uid else "is not Modelplane's"
            why = f"{history.id} exists and {other}: uninstall it with helm, or use another name"
            foreign = Unsynced(release_status.NOT_OURS, why)
            return release_status.report(wanted.manifest, None, Details(), foreign)
        waiting = Unsynced(release_status.WAITING, "reading Helm's records on the cluster")
        known = self._unreadable or self._why.get(wanted.instruction.id)
        unsynced = known or (waiting if self._stored is None else None)
        details = self._details_of(history) if history else Details()
        return release_status.report(wanted.manifest, history, details, unsynced)

    def _details_of(self, history: History) -> Details:
        return self._details.get(_stamp(history), Details())

    async def _advance(self) -> float:
        """Take one step, if one is due; return the time until the next look."""
        try:
            kubeconfig = self._host.kubeconfig(
                self.name,
                next((release.installer for release in self._wanted.values() if release.installer), None),
            )
            if self._client is None or self._client[0] != kubeconfig:
                await self._close()
                self._client = (kubeconfig, self._host.client(kubeconfig))
            await self._read(self._client[1])
        except (errors.KubernetesError, ValueError) as error:
            cluster = f"cluster {self.where}" if self.name else self.where
            problem = f"cannot read Helm's records on {cluster}: {errors.describe_error(error)}"
            if problem != self.problem:
                self.problem = problem
                self._tell()
            return _RETRY_S
        self.problem = ""
        turn = self._next()
        self._tell()
        if turn is None:
            return min(_READ_AGAIN_S, self._failures.pause_s(time.monotonic()))
        await self._carry_out(turn, kubeconfig)
        return 0.0

    async def _close(self) -> None:
        if self._client is not None:
            await self._client[1].close()
            self._client = None

    async def _read(self, client: Client) -> None:
        """Read Helm's storage: the metadata of all revisions, and the last revision of each known release."""
        listed = await client.list(
            SECRETS, labels=helm_storage.SELECTOR, fields="type=helm.sh/release.v1", metadata_only=True
        )
        stored = helm_storage.histories(listed.items)
        details = {}
        for history in stored.values():
            if not any(history.id in recorded for recorded in self._recorded.values()):
                continue
            stamp = _stamp(history)
            known = self._details.get(stamp)
            if known is None:
                secret = await client.get(SECRETS, history.last.secret, history.id.namespace)
                known = helm_storage.details_of(secret or {})
            details[stamp] = known
        self._stored, self._details = stored, details

    def _next(self) -> _Turn | None:
        """Return the step that is due, and note why each release is not what is asked for."""
        self._why.clear()
        due = [turn for release in tuple(self._wanted.values()) if (turn := self._towards(release))]
        due += self._leaving()[:1]
        turns = [turn for turn in due if self._is_due(turn)]
        for turn in turns[1:]:
            self._why.setdefault(turn.id, Unsynced(release_status.WAITING, f"waits for {turns[0].id}"))
        return turns[0] if turns else None

    def _towards(self, wanted: Wanted) -> _Turn | None:
        if isinstance(wanted.instruction, Rejected):
            return None
        instruction, release = wanted.instruction, wanted.instruction.id
        history = (self._stored or {}).get(release)
        if history is not None and not _is_for(history, wanted):
            return None
        values = merge_values(instruction, self._host.secret)
        if isinstance(values, Rejected):
            self._why[release] = Unsynced(release_status.FAILED, values.message)
            return None
        digest = instruction.digest(values[0], wanted.uid)
        if history is not None and self._former.get(wanted.uid, Former()).made(history):
            # Helm need not run for a restored owner: only the uid differs.
            before = instruction.digest(values[0], history.owner_uid)
            digest = before if before == history.last.digest else digest
        step = next_step(digest, history)
        if step is None:
            self._failures.forget(release)
            return None
        return _Turn(step, release, instruction, _marks(wanted, digest), digest, *values)

    def _leaving(self) -> list[_Turn]:
        """Return the uninstallation of each release that is no longer asked for, the last installed first.

        A child that is asked for may have another release now.
        """
        wanted = {
            row.instruction.id for row in self._wanted.values() if isinstance(row.instruction, Instruction)
        }
        leaving = [
            history
            for uid, staying in self._staying.items()
            for history in self._stored_for(uid)
            if history.id not in wanted and (history.key not in staying or (uid, history.key) in self._wanted)
        ]
        leaving.sort(key=lambda release: self._details_of(release).first_deployed, reverse=True)
        for history in leaving:
            self._why[history.id] = Unsynced(Action.UNINSTALL, "waits for the releases that may need it")
        return [_Turn(Step(Action.UNINSTALL), history.id) for history in leaving]

    def _is_due(self, turn: _Turn) -> bool:
        retries = turn.instruction.retries if turn.instruction else None
        message = self._failures.blocking(turn.id, turn.step.action, turn.digest, retries, time.monotonic())
        if message:
            self._why[turn.id] = Unsynced(release_status.FAILED, message)
        return not message

    async def _carry_out(self, turn: _Turn, kubeconfig: Mapping[str, Any]) -> None:
        step, release = turn.step, turn.id
        failed = self._failures.message(release)
        doing = f"Helm is to {step.action.verb} {release}"
        self._why[release] = Unsynced(step.action, f"{doing}, after: {failed}" if failed else doing)
        self._tell()
        extra = make_fields(cluster=self.name, release=release.name, namespace=release.namespace)
        _log.info("cluster %s: %s %s", self.name or _OWN, step.action, release, extra=extra)
        line = arguments(step, release, turn.instruction, turn.marks)
        limit_s = turn.instruction.timeout_s if turn.instruction else USUAL_WAIT_S
        run = asyncio.create_task(self._host.run(line, kubeconfig, turn.values, limit_s))
        self._running = (release, run)
        try:
            await asyncio.wait((run,))
        finally:
            self._running = None
            run.cancel()
            await asyncio.wait((run,))
        if run.cancelled():
            return  # superseded: its records tell what is to be done
        try:
            run.result()
        except HelmFailed as error:
            message = hide_secrets(f"Helm cannot {step.action.verb} {release}: {error}", turn.secrets)
            self._failures.add(release, step.action, turn.digest, message, time.monotonic())
            _log.warning("cluster %s: %s", self.name or _OWN, message, extra=extra)
        else:
            self._failures.succeeded(release, step.action)

    def _tell(self) -> None:
        for uid in {*self._recorded, *self._awaiting, *(release.uid for release in self._wanted.values())}:
            self._host.changed(uid)
        self._awaiting.clear()


def _stamp(history: History) -> tuple[str, str, str]:
    return history.id.namespace, history.last.secret, history.last.status


def _is_for(history: History, wanted: Wanted) -> bool:
    """Return True if a release is made for the owner, or for a former one of the same name."""
    has_name = history.last.labels.get(labels.RELEASE_OWNER_NAME) == wanted.owner
    return bool(history.owner_uid) and (history.owner_uid == wanted.uid or has_name)


def _marks(wanted: Wanted, digest: str) -> dict[str, str]:
    """Return the labels of a revision.

    None is a label of children: the records would be deleted as such, and the fleet's identity may delete
    objects with these labels.
    """
    return {
        labels.RELEASE_OWNER: wanted.uid,
        labels.RELEASE_OWNER_NAME: wanted.owner,
        labels.CHILD: wanted.key,
        labels.APPLIED: digest,
    }
