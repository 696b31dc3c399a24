"""The controllers, run in the process of a test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from modelplane.controllers import fleet_resources
from modelplane.controllers.helm.helm_program import Program
from modelplane.controllers.manager import Manager
from modelplane.kube.client import Client
from modelplane.proxy.interface import Proxy
from support.fleets import ControlPlane


@asynccontextmanager
async def running_controllers(
    control_plane: ControlPlane,
    proxy: Proxy | None = None,
    helm: Program | None = None,
    dial: Callable[[str], str] = lambda address: address,
) -> AsyncIterator[None]:
    """Run the controllers under their own identity, as ``modelplane controller`` does."""
    async with Client.from_kubeconfig(
        str(control_plane.home.controller_kubeconfig), known=fleet_resources.find_known
    ) as client:
        manager = Manager(client, proxy=proxy, dial=dial, helm=helm or Program())
        task = asyncio.create_task(manager.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
