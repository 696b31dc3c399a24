"""Leader election: of several controllers, the holder of a Lease reconciles.

The rules are client-go's. Clocks of two machines are never compared: a candidate takes another's lease once
the lease has not changed for its whole duration, by the candidate's own clock. The holder counts from the
time at which it sent its last renewal, and stops before another candidate may begin. One rule: a holder that
was late once never leads again, because its copies may be stale. Its process ends and a new one begins.
"""

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from modelplane.controllers.runnable import guarded
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

LEASE = "modelplane-controller"
"""The Lease that the controllers of a fleet compete for."""

_JITTER = 0.1
_RELEASE_S = 2.0


class Deposed(Exception):
    """The lease is lost, so this process must not act any more; the message says how."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of a lease, and the intervals of renewals and attempts."""

    duration_s: int = 15
    """Time after the last observed change for which a lease belongs to its holder."""
    deadline_s: float = 10.0
    """Time after the start of the last renewal for which the holder acts; shorter, so that two never act."""
    retry_s: float = 2.0


STANDARD = Timing()


def boot_clock() -> float:
    """Return seconds since the machine started, including those while it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Candidacy:
    """State of one candidate: what it has seen of the lease, and what it may do.

    It reads no clock and sends nothing: times are those of the candidate's own clock.
    """

    def __init__(self, identity: str, timing: Timing) -> None:
        self._identity = identity
        self._timing = timing
        self._lease: Object | None = None
        self._changed_at = 0.0
        self._renewed_at: float | None = None
        self.deposed = False
        """True if it led and never will again."""

    @property
    def holder(self) -> str:
        """The holder of the lease, as last observed; empty if there is none."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def _spec(self) -> Object:
        return (self._lease or {}).get("spec") or {}

    def remaining_s(self, now: float) -> float:
        """Return the seconds for which it may act without another renewal."""
        if self._renewed_at is None or self.deposed:
            return 0.0
        return self._renewed_at + self._timing.deadline_s - now

    def leads(self, now: float) -> bool:
        """True if it may act."""
        return self.remaining_s(now) > 0

    def look(self, now: float) -> None:
        """Give up leadership for good if a renewal is late."""
        if self._renewed_at is not None and not self.leads(now):
            self.deposed = True

    def saw(self, lease: Object | None, now: float) -> None:
        """Record a lease that was read; None if there is none."""
        self.look(now)
        if lease is None:
            return  # it was deleted, but its holder may not know
        if self._lease is None or _version(lease) != _version(self._lease):
            self._lease, self._changed_at = lease, now
        if self.holder != self._identity and self._renewed_at is not None:
            self.deposed = True

    def free_in_s(self, now: float) -> float:
        """Return the seconds until another's unchanged lease may be claimed; 0 or less is now."""
        duration_s = self._spec.get("leaseDurationSeconds") or self._timing.duration_s
        return self._changed_at + duration_s - now if self.holder else 0.0

    def claim(self, now: float, wall: str) -> Object | None:
        """Return the spec with which the candidate claims the lease; None while it is another's."""
        self.look(now)
        if self.deposed:
            return None
        spec = self._spec
        claimed = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._timing.duration_s,
            "renewTime": wall,
            "acquireTime": wall,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (1 if self._lease else 0),
        }
        if self.holder == self._identity:
            return claimed | {key: spec[key] for key in ("acquireTime", "leaseTransitions") if key in spec}
        return claimed if self.free_in_s(now) <= 0 else None

    def wrote(self, lease: Object, sent_at: float, now: float) -> None:
        """Record that a claim was accepted, by the time at which it was sent.

        A first claim that was answered too late begins nothing: the next one renews it.
        """
        self.look(now)
        self._lease, self._changed_at = lease, now
        if self._renewed_at is not None or now < sent_at + self._timing.deadline_s:
            self._renewed_at = sent_at


class Election:
    """One process's part in the election."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        identity: str = "",
        timing: Timing = STANDARD,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """``client`` is for the lease alone: whatever else the process sends must not hold it up."""
        self._client = client
        self._namespace = namespace
        # A name that no other process has, and none after this one.
        self._identity = identity or f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"
        self._timing = timing
        self._clock = clock
        self._candidacy = Candidacy(self._identity, timing)
        self._known: Object | None = None
        self._sent_at = 0.0
        """Time at which the last claim was sent."""
        self.problem = "the lease has not been read yet"
        """The cause if the last attempt to read or renew the lease failed; empty otherwise."""

    def fence(self) -> str:
        """Return the cause if nothing may be written; empty while this process leads."""
        return "" if self._candidacy.leads(self._clock()) else "this process does not hold the lease"

    @property
    def leads(self) -> bool:
        """True if this process may act."""
        return self._candidacy.leads(self._clock())

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then work for as long as it is held.

        Raises ``Deposed`` where it is lost. Where the work ends, however it does, the lease is given back.
        """
        await self._acquire()
        try:
            await guarded(work(), self._hold())
        finally:
            await self._release()

    async def _acquire(self) -> None:
        said = ""
        while True:
            # Without a limit for both requests: only the time since the claim was sent counts.
            await self._attempt(None)
            if self.leads:
                _log.info("leading, as %s", self._identity)
                return
            if self._candidacy.deposed:
                raise Deposed(self._lost())
            state = self.problem or f"{self._candidacy.holder} leads"
            if state != said:
                _log.info("standing by: %s", state)
            said = state
            pause_s = self._timing.retry_s * (1 + random.random() * _JITTER)  # noqa: S311 - no secret
            free_in_s = self._candidacy.free_in_s(self._clock())
            await asyncio.sleep(min(pause_s, free_in_s) if free_in_s > 0 else pause_s)

    async def _hold(self) -> None:
        """Renew the lease until that fails for too long."""
        began = self._sent_at
        while (remaining_s := self._candidacy.remaining_s(self._clock())) > 0:
            # From one attempt to the next, so that a slow answer takes no time from the next request.
            await asyncio.sleep(max(0.0, min(began + self._timing.retry_s - self._clock(), remaining_s)))
            began = self._clock()
            await self._attempt(self._candidacy.remaining_s(began))
        raise Deposed(self._lost())

    def _lost(self) -> str:
        holder = self._candidacy.holder
        late = self.problem or f"it was not renewed for {self._timing.deadline_s:g} s"
        cause = late if holder == self._identity else f"{holder or 'no candidate'} holds it"
        return f'lost Lease "{self._namespace}/{LEASE}": {cause}'

    async def _attempt(self, timeout_s: float | None) -> None:
        """Try once to take or renew the lease, within a time; each request has a limit of its own too."""
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    await self._take()
                except errors.Conflict:
                    self._known = None  # another candidate was faster: read the lease again
                    await self._take()
        except (errors.KubernetesError, TimeoutError) as error:
            # What was sent may have been done all the same: only reading the lease can tell.
            self._known = None
            self.problem = str(error) or "no answer in time"
            _log.debug("cannot take or renew the lease: %s", self.problem)
        else:
            self.problem = ""

    async def _take(self) -> None:
        if self._known is None:
            self._known = await self._read()
            self._candidacy.saw(self._known, self._clock())
        spec = self._candidacy.claim(self._clock(), timestamps.format_now_micro())
        if spec is None:
            self._known = None  # it is another's: look again
            return
        self._sent_at = sent_at = self._clock()
        self._known = await self._write(spec)
        self._candidacy.wrote(self._known, sent_at, self._clock())

    async def _read(self) -> Object | None:
        async with asyncio.timeout(self._timing.deadline_s / 2):
            return await self._client.get(resources.LEASES, LEASE, self._namespace)

    async def _write(self, spec: Object) -> Object:
        async with asyncio.timeout(self._timing.deadline_s / 2):
            if self._known is not None:
                body = {"metadata": {"resourceVersion": _version(self._known)}, "spec": spec}
                return await self._client.patch(resources.LEASES, LEASE, body, self._namespace)
            manifest = {
                "apiVersion": resources.LEASES.api_version,
                "kind": resources.LEASES.kind,
                "metadata": {"name": LEASE, "namespace": self._namespace},
                "spec": spec,
            }
            return await self._client.create(manifest)

    async def _release(self) -> None:
        """Release the lease; if that fails, another candidate waits until it expires."""
        held = self.leads
        self._candidacy.deposed = True
        if not held:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": timestamps.format_now_micro()}
        with suppress(errors.KubernetesError, TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                # A renewal that was broken off may have been done: what was last known may be old.
                self._known = await self._read()
                self._candidacy.saw(self._known, self._clock())
                if self._known is not None and self._candidacy.holder == self._identity:
                    await self._write(spec)
                    _log.info("lease given back")


def _version(lease: Object) -> str:
    return str(lease["metadata"]["resourceVersion"])
