"""The loop that renews credentials, over a cluster that was read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from modelplane.compose.clouds.table import RECIPES
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.clusters.token_renewal import Credentials
from modelplane.controllers.fleet_resources import resource_for, resource_of_kind
from modelplane.controllers.runnable import run_all
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer


@asynccontextmanager
async def renewing(
    client: Client, clusters: Clusters, clock: Callable[[], float], lifetime_s: int
) -> AsyncIterator[Credentials]:
    """Read cluster "east", and give the loop that renews its credentials, not begun yet."""
    registered = Informer(client, resource_for("modelplane.ai/v1alpha1", "InferenceCluster"))
    provisioned = {
        recipe.kind: Informer(client, resource_of_kind(recipe.type)) for recipe in RECIPES.values()
    }
    kubeconfigs = Kubeconfigs(client, registered, provisioned, clusters, {})
    task = asyncio.create_task(run_all((kubeconfigs,), (registered,)))
    while not (connection := clusters.get("east")) or connection.problem:
        await asyncio.sleep(0.01)
    yield Credentials(client, kubeconfigs, clusters, lifetime_s, clock)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
