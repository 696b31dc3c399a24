"""Heartbeats of clusters: Leases on the control plane that each cluster renews by itself.

The name of a Lease says whose it is, because the cluster may change the rest of it. Clocks of two machines
are never compared: a heartbeat has stopped once its Lease has not changed for ``PATIENCE_S`` while it was
watched here. Without a Lease, before its first renewal, and while Leases cannot be read, nothing is known.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.deciders.cluster_health import Evidence, Witness
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer

PREFIX: Final = "heartbeat-"
"""Prefix of a Lease's name; the rest is the name of the InferenceCluster."""

PERIOD_S: Final = 10.0
"""Time between two renewals."""

PATIENCE_S: Final = 40.0
"""Time without a renewal after which a heartbeat has stopped."""

_RENEWED: Final = "renewTime"


class Heartbeats:
    """The witness of each cluster that renews a Lease."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informer: Informer | None = None
        self._task: asyncio.Task[None] | None = None
        self._known: dict[str, str] = {}
        self._changed: dict[str, float] = {}
        """The time at which each Lease was seen to be renewed."""
        self._since = 0.0
        """The time since which Leases are watched without a gap."""

    def begin(self) -> None:
        """Watch the Leases, unless they are watched already."""
        if self._task is None:
            self._informer = Informer(
                self._client,
                resources.LEASES,
                namespace=SYSTEM_NAMESPACE,
                project=_renewal,
                on_change=self._renewed,
                on_answer=self._answered,
            )
            self._task = asyncio.create_task(self._informer.run(), name="heartbeats")

    async def end(self) -> None:
        """Stop watching, and forget what was seen."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._task = self._informer = None
        self._known, self._changed = {}, {}

    def of(self, cluster: str) -> Witness:
        """Return what is known of a cluster's heartbeat."""
        name, informer = PREFIX + cluster, self._informer
        if informer is None or informer.problem or not informer.synced:
            return Witness()
        lease = informer.get(name, SYSTEM_NAMESPACE)
        if lease is None or not lease[_RENEWED]:
            return Witness()
        changed = self._changed.get(name, 0.0)
        if asyncio.get_running_loop().time() - max(changed, self._since) > PATIENCE_S:
            return Witness(Evidence.BAD, f"no heartbeat for more than {PATIENCE_S:g} s")
        return Witness(Evidence.GOOD) if changed else Witness()

    def _renewed(self, lease: Object) -> None:
        name, renewed = lease["metadata"]["name"], lease[_RENEWED]
        before = self._known.get(name)
        self._known[name] = renewed
        # The first state that is seen may be old.
        if before is not None and before != renewed:
            self._changed[name] = asyncio.get_running_loop().time()

    def _answered(self, _informer: Informer) -> None:
        """Begin every window anew: what was not renewed may not have been able to."""
        self._since = asyncio.get_running_loop().time()
        self._changed.clear()


def _renewal(lease: Object) -> dict[str, Any]:
    """Return a Lease with the time of its renewal only, which is compared and never read."""
    metadata = lease["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    renewed = (lease.get("spec") or {}).get(_RENEWED)
    return {"metadata": kept, _RENEWED: renewed if isinstance(renewed, str) else ""}


async def renew(client: Client, cluster: str, holder: str, say: Callable[[str], None]) -> None:
    """Renew the Lease of a cluster until cancelled; ``say`` is told when that begins or ceases to work."""
    said = ""
    while True:
        outcome = await _renewed(client, cluster, holder)
        if outcome != said:
            say(outcome)
        said = outcome
        await asyncio.sleep(PERIOD_S)


async def _renewed(client: Client, cluster: str, holder: str) -> str:
    """Renew the Lease once; return what became of it as a sentence."""
    name = PREFIX + cluster
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": int(PATIENCE_S),
        "renewTime": timestamps.format_now_micro(),
    }
    try:
        async with asyncio.timeout(PERIOD_S):
            await client.patch(resources.LEASES, name, {"spec": spec}, SYSTEM_NAMESPACE)
    except errors.NotFound:
        return f'Lease "{name}" does not exist in {SYSTEM_NAMESPACE}: create it on the control plane'
    except errors.KubernetesError as error:
        return f'cannot renew Lease "{name}": {error}'
    except TimeoutError:
        return f'cannot renew Lease "{name}": no response within {PERIOD_S:g} s'
    return f'renews Lease "{name}" every {PERIOD_S:g} s'
