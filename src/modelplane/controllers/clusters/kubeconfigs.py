"""Kubeconfigs: connect to every InferenceCluster, and again when its kubeconfig changes.

Where a kubeconfig has no credential, a cloud's credential is exchanged for a token. A cloud's library is
loaded with its first credential.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import msgspec

from modelplane.api.clouds.cluster_origin import ClusterOrigin, IdentityType, KubeconfigSecret
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import convert
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.cluster.cluster_kubeconfig import KubeconfigReference, kubeconfig_reference
from modelplane.compose.composition import Unknown
from modelplane.controllers.clusters import aws_tokens, google_tokens, nebius_tokens
from modelplane.controllers.clusters.cloud_identities import Credential, Exchange, Identities, Token
from modelplane.controllers.clusters.connections import Access, Clusters, Supplied
from modelplane.controllers.runnable import Runnable
from modelplane.kube import kubeconfig_secret, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Handler, Informer
from modelplane.kube.resources import Object

EXCHANGES: Final[Mapping[IdentityType, Exchange]] = {
    IdentityType.GOOGLE: google_tokens.exchange,
    IdentityType.AWS: aws_tokens.exchange,
    IdentityType.NEBIUS: nebius_tokens.exchange,
}

FOR_ONE_CLUSTER: Final = frozenset({IdentityType.AWS})
"""The clouds whose tokens are for one cluster."""

_CLOUDS = {IdentityType.GOOGLE: "a Google", IdentityType.AWS: "an AWS", IdentityType.NEBIUS: "a Nebius"}

_SLICE_S = 0.05
"""Time for which nothing else runs while the connections to all clusters begin."""


def _origin(cluster: Object) -> ClusterOrigin | Unknown:
    """Return where a cluster comes from.

    Of the origin alone: a pool that cannot be read is no reason to do without the connection.
    """
    try:
        return convert(cluster["spec"]["cluster"], ClusterOrigin)
    except msgspec.ValidationError as error:
        return Unknown(f"cannot read spec.cluster: {error}")


class Kubeconfigs(Runnable):
    """Keeps the connections in step with the InferenceClusters and their kubeconfig Secrets."""

    name = "kubeconfigs"

    def __init__(
        self,
        client: Client,
        registered: Informer,
        provisioned: Mapping[str, Informer],
        clusters: Clusters,
        exchanges: Mapping[IdentityType, Exchange] = EXCHANGES,
    ) -> None:
        """``registered`` is the copy of the InferenceClusters, ``provisioned`` those of the clouds' kinds."""
        self._registered = registered
        self._provisioned = {source: provisioned[recipe.kind] for source, recipe in RECIPES.items()}
        self._clusters = clusters
        self._started = False
        self._used: dict[str, frozenset[str]] = {}
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self.identities = Identities(exchanges, self._connect)
        """Tokens for kubeconfigs without a credential, as a control loop of their own."""
        self._secrets = Informer(
            client, resources.SECRETS, namespace=SYSTEM_NAMESPACE, on_change=self._secret_changed
        )
        for informer in (registered, *self._provisioned.values()):
            informer.add_handler(self._changed)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """The Secrets that kubeconfigs are in."""
        return (self._secrets,)

    async def start(self) -> None:
        """Begin to connect to every cluster.

        Not before: the copies of thousands of clusters arrive at once, and nothing else would run meanwhile.
        """
        self._started = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        for cluster in self._registered:
            self._connect(cluster["metadata"]["name"])
            # A thousand kubeconfigs take seconds, and the lease is to be renewed. No owner is reconciled
            # before the last of them, so the connections that begin are not served after each.
            if loop.time() - began > _SLICE_S:
                await asyncio.sleep(0)
                began = loop.time()

    async def close(self) -> None:
        """Close every connection."""
        await self._clusters.close()

    def secret_of(self, name: str) -> Object | None:
        """Return the Secret of a cluster's kubeconfig; None if it is not there or not known."""
        cluster = self._registered.get(name)
        reference = self._reference(cluster) if cluster else None
        if not isinstance(reference, KubeconfigReference):
            return None
        return self._secrets.get(reference.name, reference.namespace)

    def secret(self, name: str) -> Object | None:
        """Return a Secret in the system's namespace; None if it is not there or not known."""
        return self._secrets.get(name, SYSTEM_NAMESPACE)

    def on_secret(self, handler: Handler) -> None:
        """Call a handler with each Secret in the system's namespace that changes."""
        self._secrets.add_handler(handler)

    def installer_of(self, name: str) -> KubeconfigSecret | None:
        """Return the Secret that a cluster names for installing charts; None if it names none."""
        cluster = self._registered.get(name)
        origin = _origin(cluster) if cluster else None
        existing = origin.existing if isinstance(origin, ClusterOrigin) else None
        return existing.installer_secret_ref if existing else None

    def remember(self, secret: Object) -> None:
        """Take a Secret that was written, without waiting for the watch."""
        self._secrets.remember(secret)

    def _changed(self, cluster: Object) -> None:
        if cluster["metadata"].get("namespace", SYSTEM_NAMESPACE) == SYSTEM_NAMESPACE:
            self._connect(cluster["metadata"]["name"])

    def _secret_changed(self, secret: Object) -> None:
        for name in sorted(self._users.get(secret["metadata"]["name"], ())):
            self._connect(name)

    def _index(self, cluster: str, secrets: frozenset[str]) -> None:
        """Record which Secrets a cluster's connection depends on: a change looks at no other cluster."""
        for former in self._used.pop(cluster, ()):
            self._users[former].discard(cluster)
            if not self._users[former]:
                del self._users[former]
        if secrets:
            self._used[cluster] = secrets
        for secret in secrets:
            self._users[secret].add(cluster)

    def _connect(self, name: str) -> None:
        if not self._started:
            return
        cluster = self._registered.get(name)
        reference = self._reference(cluster) if cluster is not None else None
        self._index(name, reference.secrets if isinstance(reference, KubeconfigReference) else frozenset())
        if cluster is None or reference is None:
            self.identities.release(name)
            self._clusters.disconnect(name)
            return
        if isinstance(reference, Rejected):
            self._clusters.refuse(name, reference.message)
            return
        if isinstance(reference, Unknown):
            self._clusters.report(name, reference.cause)
            return
        self._clusters.connect(
            name,
            self._secrets.get(reference.name, reference.namespace),
            reference.key,
            str(reference),
            supplied=self._supplied(name, reference),
            # A provider renews the token of a cluster that it has made every few minutes.
            is_renewed=cluster["spec"]["cluster"]["source"] in self._provisioned,
        )

    def _supplied(self, name: str, reference: KubeconfigReference) -> Supplied:
        """Return the token of the identity to use with a kubeconfig, if it names one."""
        identity = reference.identity
        if identity is None:
            self.identities.release(name)
            return Supplied()
        what = f"{_CLOUDS[identity.type]} credential"
        if identity.namespace != SYSTEM_NAMESPACE:
            return Supplied(
                problem=f"{reference} contains a kubeconfig for use with {what} in {identity}, "
                f'but the controllers read Secrets only in namespace "{SYSTEM_NAMESPACE}": use a Secret in '
                "that namespace in the provider configuration"
            )
        secret = self._secrets.get(identity.name, identity.namespace)
        try:
            content = kubeconfig_secret.read_content(secret, identity.key, str(identity), what)
            cluster = self._named(reference) if identity.type in FOR_ONE_CLUSTER else ""
        except ValueError as error:
            return Supplied(problem=str(error))
        token = self.identities.use(name, Credential(identity.type, content, str(identity), cluster))
        return Supplied(token.text) if isinstance(token, Token) else Supplied(problem=token)

    def _named(self, reference: KubeconfigReference) -> str:
        """Return the cluster of a kubeconfig, by its name there. Raises ``ValueError``."""
        secret = self._secrets.get(reference.name, reference.namespace)
        content = kubeconfig_secret.read_content(secret, reference.key, str(reference))
        parsed = kubeconfig_secret.parse_kubeconfig(content, reference.key, str(reference))
        return str(parsed["clusters"][0]["name"])

    def _reference(self, cluster: Object) -> KubeconfigReference | Rejected | Unknown:
        origin = _origin(cluster)
        if isinstance(origin, Unknown):
            return origin
        informer = self._provisioned.get(origin.source)
        if informer is None:
            return kubeconfig_reference(origin, None)
        reference = kubeconfig_reference(origin, informer.get(cluster["metadata"]["name"], SYSTEM_NAMESPACE))
        # A cluster that lists no Secret yet, or no longer: a present connection stays.
        return Unknown(reference.message) if isinstance(reference, Rejected) else reference


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
