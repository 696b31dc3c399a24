"""Mutual TLS to the gateways of clusters: issue certificates, and advance each cluster's rollout.

The authority, the certificate of the fleet's gateway and those of the clusters are Secrets of the system's
namespace. The phase of a rollout is in the status of the InferenceCluster. One rule: what is missing, damaged
or unreadable changes nothing that is in force.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from modelplane.api.fields.cluster.mutual_tls_settings import MutualTLS, MutualTLSPhase
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.cluster.gateway_status import read_rollout
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.memo import per_version
from modelplane.compose.serving_stack import cluster_gateway, cluster_mutual_tls
from modelplane.controllers.children.ownership import controller_uid
from modelplane.controllers.gateway.gateway_certificates import Certificates, Issued, Place
from modelplane.controllers.runnable import Runnable
from modelplane.gateway.envoy.certificate_files import AUTHORITIES, IDENTITY, parse_identity
from modelplane.gateway.mutual_tls import (
    Identity,
    Link,
    Protocol,
    Seen,
    build_server_name,
    describe_waiting,
    list_accepted,
    step,
)
from modelplane.kube import errors
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_LOOK_S = 5.0
_CLUSTER = kind_name(InferenceCluster)

Find = Callable[[Requirement], tuple[Object, ...] | Unknown]
"""Returns the objects of a cluster that a requirement names."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """A cluster with mutual TLS, and what its gateway has."""

    cluster: InferenceCluster
    accepted: frozenset[Protocol]
    """The protocols that its gateway reports as in force."""
    is_ours: bool
    """True if a ServingStack made its gateway."""
    secret: tuple[Object, ...] | Unknown
    """The Secret of its gateway."""

    @property
    def place(self) -> Place:
        """The place of its certificate."""
        name, uid = self.cluster.metadata.name, self.cluster.metadata.uid
        checks = Protocol.TLS in list_accepted(read_rollout(self.cluster).phase)
        return Place(name, uid, build_server_name(uid), self.secret, checks=checks)


class MutualTls(Runnable):
    """Issues certificates and advances rollouts, every few seconds."""

    name = "mutual TLS"

    def __init__(
        self,
        informers: Mapping[str, Informer],
        find: Find,
        certificates: Certificates,
        *,
        former: Callable[[str], str],
        changed: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``former`` returns a file of the proxy as it was last written; ``changed`` is told of a cluster.

        ``changed`` is called without a name if the identity of the fleet's gateway has changed.
        """
        self._informers = informers
        self._find = find
        self._certificates = certificates
        self._former = former
        self._changed = changed
        self._now = now
        self._links: dict[str, Link | Unknown] = {}
        self._identity: Identity | None = None

    async def start(self) -> None:
        """Take up what an earlier process left."""
        files = await asyncio.gather(
            *(asyncio.to_thread(self._former, path) for path in (IDENTITY, AUTHORITIES))
        )
        self._identity = parse_identity(*files)
        await self.look()

    async def run(self) -> None:
        """Look at every cluster every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    def identity(self) -> Identity | None:
        """Return the identity of the fleet's gateway; None without one."""
        return self._identity

    def of(self, name: str) -> Link | Unknown | None:
        """Return the mutual TLS of a cluster; None if there is no such cluster."""
        item = self._informers[_CLUSTER].get(name)
        if item is None:
            return None
        try:
            cluster = decode_as(InferenceCluster, item)
        except InvalidObject as error:
            return Unknown(f'cannot read InferenceCluster "{name}": {error}')
        if not _is_active(cluster):
            return Link()
        return self._links.get(name, Unknown("its mutual TLS is not known yet"))

    async def look(self) -> None:
        """Issue the certificates that are due, and take the next step of each rollout."""
        clusters = [
            decode_as(InferenceCluster, item) for item in self._informers[_CLUSTER] if _is_concerned(item)
        ]
        clusters.sort(key=lambda cluster: cluster.metadata.name)
        active = [self._observed(cluster) for cluster in clusters]
        links: dict[str, Link | Unknown] = {}
        if active:
            now = self._now()
            try:
                issued = await self._certificates.update([observed.place for observed in active], now)
            except errors.KubernetesError as error:
                _log.warning("cannot write certificates of gateways; trying again: %s", error)
                issued = replace(self._certificates.last, problem=f"cannot write certificates: {error}")
            if issued.identity is not None and issued.identity != self._identity:
                self._identity = issued.identity
                self._changed("")
            in_use = self._in_use()
            links = {
                observed.cluster.metadata.name: self._link(
                    observed, issued, in_use.get(observed.cluster.metadata.name, frozenset()), now
                )
                for observed in active
            }
        before, self._links = self._links, links
        for name in before.keys() | links.keys():
            if before.get(name) != links.get(name):
                self._changed(name)

    def _observed(self, cluster: InferenceCluster) -> _Observed:
        name = cluster.metadata.name
        gateways = self._find(cluster_gateway.requirement(name))
        policies = self._find(cluster_mutual_tls.policy_requirement(name))
        secret = self._find(cluster_mutual_tls.secret_requirement(name))
        if isinstance(gateways, Unknown) or isinstance(policies, Unknown):
            return _Observed(cluster, frozenset(), False, secret)
        found, policy = (next(iter(row), None) for row in (gateways, policies))
        is_ours = found is not None and cluster_gateway.is_ours(found)
        return _Observed(cluster, cluster_mutual_tls.in_force(found, policy), is_ours, secret)

    def _link(
        self, observed: _Observed, issued: Issued, in_use: frozenset[Protocol], now: datetime
    ) -> Link | Unknown:
        pair = issued.servers.get(observed.cluster.metadata.name)
        state = read_rollout(observed.cluster)
        if pair is None and state.phase is not MutualTLSPhase.PLAIN:
            return Unknown(issued.problem or "its certificate is not known yet")
        wanted = observed.cluster.spec.gateway.mutual_tls
        certified = pair is not None and issued.identity is not None and observed.is_ours
        seen = Seen(wanted is not None, certified, observed.accepted, in_use)
        # Without the field, the default counts.
        drain = timedelta(seconds=(wanted or MutualTLS()).drain_seconds)
        following = step(state, seen, drain, now)
        waiting = describe_waiting(following, seen, drain) or ""
        return Link(following, pair, issued.authorities, issued.problem, waiting)

    def _in_use(self) -> dict[str, frozenset[Protocol]]:
        """Return the protocols of the endpoints of each cluster's replicas, by the cluster's name."""
        found: dict[str, set[Protocol]] = {}
        endpoints = self._informers[kind_name(ModelEndpoint)]
        for replica in self._informers[kind_name(ModelReplica)]:
            metadata = replica["metadata"]
            endpoint = endpoints.get(metadata["name"], metadata["namespace"])
            # One that somebody else made under the name of a replica says nothing.
            if endpoint is not None and controller_uid(endpoint) == metadata["uid"]:
                is_mutual = "mutualTLS" in endpoint["spec"]
                protocols = found.setdefault(replica["spec"].get("clusterName", ""), set())
                protocols.add(Protocol.TLS if is_mutual else Protocol.PLAIN)
        return {name: frozenset(protocols) for name, protocols in found.items()}


@per_version
def _is_concerned(item: Mapping[str, Any]) -> bool:
    """Return True if a cluster is active. Of the many that are not, none is decoded at each look."""
    try:
        return _is_active(decode_as(InferenceCluster, item))
    except InvalidObject:
        return False  # its reconcile says so


def _is_active(cluster: InferenceCluster) -> bool:
    """Return True if a cluster has mutual TLS, or is on its way to or from it."""
    is_wanted = cluster.spec.gateway.mutual_tls is not None
    return is_wanted or read_rollout(cluster).phase is not MutualTLSPhase.PLAIN
