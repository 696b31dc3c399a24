"""Clients of the inference clusters, from the kubeconfig Secrets that the controllers use.

A kubeconfig from a server never starts a program or reads a file of this machine: the writers of Secrets on
that server are not necessarily trusted here.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from modelplane.api.decode import InvalidObject, decode_as
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.rejected import Rejected
from modelplane.compose.cluster_kubeconfig import kubeconfig_reference
from modelplane.controllers import fleet_resources
from modelplane.kube import errors, kubeconfig_secret, resources
from modelplane.kube.client import Client

_OF_THIS_MACHINE: Final = frozenset(
    {"exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority"}
)
"""Entries of a kubeconfig that name a program or a file of the machine that reads it."""


class ClusterUnreachable(Exception):
    """A cluster cannot be reached; the message has the cause and the remedy."""


class InferenceClusters:
    """One client per cluster, made on first use."""

    def __init__(self, control_plane: Client) -> None:
        self._control_plane = control_plane
        self._clients: dict[str, Client] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def client(self, name: str) -> Client:
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
        found = await self._control_plane.get(fleet_resources.INFERENCE_CLUSTERS, name)
        if found is None:
            raise ValueError(f'there is no InferenceCluster "{name}"')
        reference = kubeconfig_reference(decode_as(InferenceCluster, found).spec.cluster)
        if isinstance(reference, Rejected):
            raise ValueError(reference.message)  # noqa: TRY004 - a value of the cluster, not a type of ours
        secret = await self._control_plane.get(resources.SECRETS, reference.name, reference.namespace)
        text = kubeconfig_secret.content(secret, reference.key, str(reference))
        kubeconfig = kubeconfig_secret.parsed(text, reference.key, str(reference))
        if own := sorted(set(_OF_THIS_MACHINE).intersection(_entries(kubeconfig))):
            raise ValueError(
                f"the kubeconfig in {reference} has {own[0]}, which is for the controllers' machine"
            )
        return kubeconfig

    async def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            await client.close()


def _entries(kubeconfig: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of every cluster and user of a kubeconfig."""
    for listed, key in (("clusters", "cluster"), ("users", "user")):
        for named in kubeconfig.get(listed) or ():
            if isinstance(named, dict) and isinstance(named.get(key), dict):
                yield from named[key]
