"""Clients of the inference clusters, from the kubeconfig Secrets that the controllers use."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.clouds.provisioned import recipe_of
from modelplane.compose.cluster.cluster_kubeconfig import kubeconfig_reference
from modelplane.controllers import fleet_resources
from modelplane.kube import errors, kubeconfig_secret, resources
from modelplane.kube.client import Client


class ClusterUnreachable(Exception):
    """A cluster cannot be reached; the message has the cause and the remedy."""


class InferenceClusters:
    """One client per cluster, made on first use."""

    def __init__(self, control_plane: Client) -> None:
        self._control_plane = control_plane
        self._clients: dict[str, Client] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get_client(self, name: str) -> Client:
        """Return the client of a cluster. Raises ``ClusterUnreachable``."""
        # Tasks that ask for one cluster at the same time share its client: only the last one would be closed.
        async with self._locks[name]:
            if name not in self._clients:
                try:
                    self._clients[name] = Client.from_kubeconfig(await self._kubeconfig(name))
                except (errors.KubernetesError, InvalidObject, ValueError) as error:
                    raise ClusterUnreachable(
                        f"{error}: use kubectl with a kubeconfig of that cluster"
                    ) from error
        return self._clients[name]

    async def _kubeconfig(self, name: str) -> Mapping[str, Any]:
        cluster = await self._control_plane.get(fleet_resources.INFERENCE_CLUSTERS, name)
        if cluster is None:
            raise ValueError(f'there is no InferenceCluster "{name}"')
        origin = decode_as(InferenceCluster, cluster).spec.cluster
        provisioned: Object | None = None
        if recipe := recipe_of(origin):
            resource = fleet_resources.resource_of_kind(recipe.type)
            provisioned = await self._control_plane.get(resource, name, SYSTEM_NAMESPACE)
        reference = kubeconfig_reference(origin, provisioned)
        if isinstance(reference, Rejected):
            raise ValueError(reference.message)  # noqa: TRY004 - a value of the cluster, not a type of ours
        secret = await self._control_plane.get(resources.SECRETS, reference.name, reference.namespace)
        text = kubeconfig_secret.read_content(secret, reference.key, str(reference))
        return kubeconfig_secret.parse_kubeconfig(text, reference.key, str(reference))

    async def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            await client.close()
