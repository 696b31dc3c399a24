"""The second part of ``modelplane up``: the installation of a fleet on the servers that it has started.

The import of this module takes longer than the first part, so it happens while the servers start.
"""

import asyncio
import time
from pathlib import Path

from rich.console import Console

from modelplane.controllers.fleet_resources import INFERENCE_CLUSTERS, MODEL_DEPLOYMENTS, find_known
from modelplane.kube.client import Client
from modelplane.kube.errors import KubernetesError, Unreachable
from modelplane.local import served, settings
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_registration
from modelplane.local.next_steps import Contents
from modelplane.local.settings import LocalSettings
from modelplane.local.supervision import lifecycle, processes
from modelplane.local.supervision.process_records import Record
from modelplane.user_error import UserError

_LOADING_S = 60.0
_AGAIN_S = 1.0


async def install(place: Home, console: Console, begun: float, timeout_s: float) -> Contents:
    """Make a home whose processes start a fleet; return what is on it once it is ready for a model.

    Progress is counted from ``begun``, a time of the monotonic clock.
    """
    chosen = settings.load(place)
    table = processes.build_table(place, chosen, Path())
    first = processes.list_api_servers(table)
    later = [process.name for process in table if process.name not in first]

    def step(text: str) -> None:
        console.print(f"  {text:<40}{time.monotonic() - begun:5.1f} s")

    def report_start(record: Record) -> None:
        step(f"Started {record.name}")

    await lifecycle.wait_until_running(place, first, timeout_s, report_start)
    async with Client.from_kubeconfig(str(place.kubeconfig), known=find_known) as client:
        others = asyncio.create_task(lifecycle.wait_until_running(place, later, timeout_s, report_start))
        fleet = asyncio.create_task(_install(client, place, chosen, step, timeout_s))
        # A process that keeps dying explains a fleet that never becomes ready, so its error comes first.
        _, pending = await asyncio.wait({others, fleet}, return_when=asyncio.FIRST_EXCEPTION)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in (others, fleet):
            if not task.cancelled():
                task.result()
        if before := fleet.result():
            step("Waiting for existing services")
            for namespace, name in await served.wait_until_answering(client, before, _LOADING_S):
                console.print(
                    f"  {name} doesn't answer yet: to see why, run `kubectl describe md -n {namespace}`"
                )
        contents = Contents(
            has_clusters=bool((await client.list(INFERENCE_CLUSTERS)).items),
            has_deployments=bool((await client.list(MODEL_DEPLOYMENTS)).items),
        )
    lifecycle.end_start(place, first)
    return contents


async def _install(
    client: Client, place: Home, chosen: LocalSettings, report: cluster_registration.Report, timeout_s: float
) -> served.Services:
    """Install Modelplane on the control plane; return the services that were ready before.

    What gets no answer is tried again until the time is over: an API server that starts on a busy machine is
    slow.
    """
    before: served.Services | None = None
    unanswered = ""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    if before is None:
                        before = await served.list_services(client)
                    await cluster_registration.install(client, place, chosen, report)
                except Unreachable as error:
                    unanswered = f" ({error})"
                    await asyncio.sleep(_AGAIN_S)
                else:
                    return before
    except (KubernetesError, TimeoutError) as error:
        cause = str(error) or f"not done after {timeout_s:g} s{unanswered}"
        raise UserError(f"cannot set up the fleet: {cause}; run `modelplane status` for details") from error
