"""Installers: kubeconfigs with which Helm installs charts, from the Secrets that InferenceClusters name."""

from modelplane.compose.cluster.cluster_kubeconfig import KubeconfigReference
from modelplane.controllers.clusters.cluster_access import Access
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.kube import kubeconfig_secret
from modelplane.kube.resources import Object


class Installers:
    """The installer's kubeconfig of each cluster, read again only if its Secret changes."""

    def __init__(self, kubeconfigs: Kubeconfigs) -> None:
        self._kubeconfigs = kubeconfigs
        self._read: dict[str, tuple[object, Access | None]] = {}

    def secret(self, cluster: str) -> Object | None:
        """Return the Secret of a cluster's installer; None if there is none."""
        named = self._kubeconfigs.installer_of(cluster)
        return self._kubeconfigs.secret(named.name) if named else None

    def access(self, cluster: str) -> Access | None:
        """Return the kubeconfig of a cluster's installer; None if there is none that is accepted."""
        named, secret = self._kubeconfigs.installer_of(cluster), self.secret(cluster)
        if named is None or secret is None:
            self._read.pop(cluster, None)
            return None
        state = (named, secret["metadata"]["resourceVersion"])
        known = self._read.get(cluster)
        if known is None or known[0] != state:
            where = str(KubeconfigReference(named.name, named.key))
            try:
                content = kubeconfig_secret.read_content(secret, named.key, where)
                known = (state, Access.of(content, named.key, where))
            except ValueError:
                # Helm's own conditions say what is wrong with it.
                known = (state, None)
            self._read[cluster] = known
        return known[1]
