"""Hold: the controllers' Lease, taken while a fleet is restored, so that no controller acts on half of one.

The claim does not expire. If a restore ends before it wrote an object, it gives the Lease back. If it is
interrupted later, controllers still stand by, until it is run again and completes, or the Lease is deleted.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.controllers.leader import LEASE, STANDARD
from modelplane.install.waiting import Report
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.user_error import UserError

_PREFIX: Final = "modelplane-restore"
_FOR_EVER_S: Final = 2**31 - 1

GIVE_UP: Final = f"kubectl delete lease {LEASE} -n {SYSTEM_NAMESPACE}"
"""The command after which controllers act again although a restore is not complete."""


class Hold:
    """The claim of one restore. The same file has the same claim, so a second run continues the first."""

    def __init__(
        self, client: Client, digest: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._client = client
        self._identity = f"{_PREFIX}-{digest[:16]}"
        self._digest = digest
        self._sleep = sleep
        self._taken = False
        self.must_complete = False
        """True once objects may have been written: then the Lease is not given back before all are there."""

    @asynccontextmanager
    async def explain_failure(self, report: Report) -> AsyncIterator[None]:
        """Give the Lease back if what is done meanwhile fails or is canceled; report it if it must stay."""
        try:
            yield
        except BaseException:
            if self._taken and not self.must_complete:
                await self._give_up(report)
            elif self._taken:
                report(self._explanation())
            raise

    async def _give_up(self, report: Report) -> None:
        try:
            await self.give_back()
        except BaseException as error:
            report(self._explanation())
            if not isinstance(error, errors.KubernetesError):
                raise

    def _explanation(self) -> str:
        return (
            f'interrupted: the controllers are on standby, because Lease "{SYSTEM_NAMESPACE}/{LEASE}" is '
            f'still held by "{self._identity}". To continue, restore the file with sha256 {self._digest} '
            f"again. To give up, run `{GIVE_UP}`"
        )

    async def check(self) -> Object | None:
        """Return the Lease; None if there is none. Raises ``UserError`` while another restore has it."""
        lease = await self._client.get(resources.LEASES, LEASE, SYSTEM_NAMESPACE)
        holder = _holder(lease)
        if holder.startswith(f"{_PREFIX}-") and holder != self._identity:
            raise UserError(
                "another backup's restore is not complete: restore that backup again, or give up with "
                f"`{GIVE_UP}`"
            )
        if holder == self._identity:
            self._taken = self.must_complete = True  # by an earlier run
        return lease

    async def take(self) -> str | None:
        """Take the Lease; return the holder that it was taken from, once that one has stopped to act.

        Raises ``UserError`` while another restore has it, and ``Conflict`` if another takes it at once.
        """
        lease = await self.check()
        if self._taken:
            return None
        holder, spec = _holder(lease), (lease or {}).get("spec") or {}
        self._taken = True  # also without an answer
        await self._write(lease, (spec.get("leaseTransitions") or 0) + 1)
        if holder:
            # It may act until its last renewal expires.
            await self._sleep(max(STANDARD.duration_s, spec.get("leaseDurationSeconds") or 0))
        return holder or None

    async def _write(self, lease: Object | None, transitions: int) -> None:
        now = timestamps.format_now_micro()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": _FOR_EVER_S,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        if lease is not None:
            body = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}
            await self._client.patch(resources.LEASES, LEASE, body, SYSTEM_NAMESPACE)
            return
        metadata = {"name": LEASE, "namespace": SYSTEM_NAMESPACE}
        about = {"apiVersion": resources.LEASES.api_version, "kind": resources.LEASES.kind}
        await self._client.create({**about, "metadata": metadata, "spec": spec})

    async def give_back(self) -> None:
        """Let controllers act."""
        lease = await self._client.get(resources.LEASES, LEASE, SYSTEM_NAMESPACE)
        if lease is None or _holder(lease) != self._identity:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": timestamps.format_now_micro()}
        body = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}
        with suppress(errors.NotFound):
            await self._client.patch(resources.LEASES, LEASE, body, SYSTEM_NAMESPACE)


def _holder(lease: Object | None) -> str:
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
