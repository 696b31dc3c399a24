"""Host: what the releases of every cluster share: the helm program, kubeconfigs, Secrets with values."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from modelplane.api.clouds.cluster_origin import KubeconfigSecret
from modelplane.compose.cluster.cluster_kubeconfig import KubeconfigReference
from modelplane.compose.gateway.installed_gateway import INSTALLER
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.helm import process
from modelplane.controllers.helm.process import HelmFailed, Program
from modelplane.kube import kubeconfig_secret
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.resources import Object

OWN_INSTALLER = KubeconfigSecret(name=INSTALLER)
"""The Secret of Helm's kubeconfig for the control plane's own cluster."""

_NO_HELM = (
    "there is no helm program: set MODELPLANE_KUBERNETES_BINARY to a binary of the local control plane, "
    "which has one, or install Helm 4 on PATH"
)


class Host:
    """Runs Helm, a few processes at a time, and finds the kubeconfig to use."""

    def __init__(
        self,
        helm: Program,
        clusters: Clusters,
        secret: Callable[[str], Object | None],
        installer: Callable[[str], KubeconfigSecret | None],
        on_change: Callable[[str], None],
        fence: Fence | None = None,
    ) -> None:
        """``secret`` returns a Secret of the system's namespace, ``installer`` the Secret that an
        InferenceCluster names for Helm. ``on_change`` is called with the uid of an owner whose releases have
        changed.
        """
        self._helm = helm
        self._clusters = clusters
        self._installer = installer
        self._fence = fence
        self._turn = asyncio.Semaphore(process.AT_A_TIME)
        self.secret = secret
        self.changed = on_change

    def kubeconfig(self, cluster: str, installer: KubeconfigSecret | None) -> Mapping[str, Any]:
        """Return Helm's kubeconfig for a cluster. Raises ``ValueError`` with the cause if there is none.

        On the control plane's own cluster, empty, only the installer may: never the controllers' identity.
        """
        if not cluster:
            return self._read(OWN_INSTALLER)
        access = self._clusters.access(cluster)
        if access is None:
            raise ValueError(self._clusters.problem(cluster))
        named = installer or self._installer(cluster)
        return access.kubeconfig if named is None else self._read(named)

    def _read(self, named: KubeconfigSecret) -> Mapping[str, Any]:
        where = str(KubeconfigReference(named.name, named.key))
        content = kubeconfig_secret.read_content(self.secret(named.name), named.key, where)
        return kubeconfig_secret.parse_kubeconfig(content, named.key, where)

    def client(self, kubeconfig: Mapping[str, Any]) -> Client:
        """Return a client for a kubeconfig."""
        return Client.from_kubeconfig(kubeconfig, fence=self._fence, known=fleet_resources.known)

    async def run(
        self,
        line: tuple[str, ...],
        kubeconfig: Mapping[str, Any],
        values: Mapping[str, Any],
        limit_s: float,
    ) -> None:
        """Run Helm in its turn; raise ``HelmFailed``."""
        if not self._helm.line:
            raise HelmFailed(_NO_HELM)
        async with self._turn:
            if self._fence and (why := self._fence()):
                raise HelmFailed(why)
            await process.run(self._helm, line, kubeconfig, values, limit_s=limit_s)
