"""Renewal of a cluster's heartbeat: what runs on the cluster and needs nothing but its own Lease."""

import asyncio
from collections.abc import Callable

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.controllers.clusters.heartbeats import PATIENCE_S, PERIOD_S, PREFIX
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client


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
        return f'there is no Lease "{name}" in {SYSTEM_NAMESPACE}: create it on the control plane'
    except errors.KubernetesError as error:
        return f'cannot renew Lease "{name}": {error}'
    except TimeoutError:
        return f'cannot renew Lease "{name}": no answer within {PERIOD_S:g} s'
    return f'renews Lease "{name}" every {PERIOD_S:g} s'
