"""Failover: watches clusters while any deployment asks for it, and wakes the owners that are concerned.

`modelplane.deciders.cluster_health` decides; its memory is kept here and nowhere else. Without a deployment
with `spec.failover` no cluster is tried, and no object is written.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.cluster.reachability import find_reported_error
from modelplane.compose.conditions import READY
from modelplane.compose.deployment import scheduler_input
from modelplane.compose.memo import readable
from modelplane.compose.readiness import is_true
from modelplane.controllers.children.ownership import controller_uid
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.gateway_probes import Address, DataPath
from modelplane.controllers.clusters.heartbeats import Heartbeats
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.runnable import Runnable
from modelplane.deciders.cluster_health import (
    ClusterSeen,
    ClusterState,
    Evidence,
    Memory,
    Move,
    Observation,
    Watched,
    Witness,
    Witnesses,
    step,
)
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer

_log = logging.getLogger(__name__)

_LOOK_S = 2.0
_ANSWER_S = 5.0
_CLUSTER = kind_name(InferenceCluster)
_ANSWERS = (ClusterState.REACHABLE, ClusterState.RETURNING)
_DEPLOYMENT = kind_name(ModelDeployment)


class Failover(Runnable):
    """The control loop of failover."""

    name = "failover"

    def __init__(
        self,
        client: Client,
        informers: Mapping[str, Informer],
        clusters: Clusters,
        *,
        addresses: Callable[[str], Collection[Address]],
        changed: Callable[[OwnerKey], None],
    ) -> None:
        """``addresses`` returns where the gateway sends a cluster's requests; ``changed`` wakes an owner."""
        self._client = client
        self._informers = informers
        self._clusters = clusters
        self._addresses = addresses
        self._changed = changed
        self._data_path = DataPath()
        self._heartbeats = Heartbeats(client)
        self._memory: Memory | None = None

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        """Stop watching heartbeats."""
        await self._heartbeats.end()

    def of_deployment(self, deployment: ModelDeployment) -> Watched:
        """Return what a deployment is told of failover."""
        return self._memory.report_for_deployment(deployment.metadata.uid) if self._memory else Watched()

    def of_cluster(self, cluster: InferenceCluster) -> Watched | None:
        """Return what a cluster is told of failover; None while no deployment has it."""
        return self._memory.report_for_cluster(cluster.metadata.name) if self._memory else None

    @property
    def states(self) -> dict[str, ClusterState]:
        """The state of every cluster; empty while no deployment has failover."""
        standings = self._memory.standings if self._memory else {}
        return {name: standing.state for name, standing in standings.items()}

    @property
    def paused(self) -> bool | None:
        """True while the breaker stops replacements; None while no deployment has failover."""
        return bool(self._memory.paused) if self._memory else None

    async def look(self) -> None:
        """Look at every cluster once, and wake the owners that are told something new."""
        deployments = {
            owner.metadata.uid: owner
            for item in self._informers[_DEPLOYMENT]
            if "failover" in item["spec"]
            for owner in readable(ModelDeployment)(item)
            if owner.spec.failover
        }
        before = self._memory
        if deployments:
            self._heartbeats.begin()
            moves = self._moves(deployments)
            seen = await self._seen({move.cluster for move in moves})
            stale = next(
                (informer.problem for informer in self._informers.values() if informer.problem), None
            )
            silence = stale or await _silence(self._client)
            # While its own API server is silent, the control plane cannot judge clusters.
            why = f"its own API server doesn't respond in time: {silence}" if silence else None
            observation = Observation(seen, moves, why)
            self._memory = step(before or Memory(), observation, asyncio.get_running_loop().time())
        else:
            self._memory = None
            await self._heartbeats.end()
        self._tell(before, deployments)

    def _moves(self, deployments: Mapping[str, ModelDeployment]) -> tuple[Move, ...]:
        """Return the replicas of the deployments, by cluster."""
        there: defaultdict[str, list[Object]] = defaultdict(list)
        for replica in self._informers[kind_name(ModelReplica)]:
            uid, metadata = controller_uid(replica), replica["metadata"]
            if uid in deployments and "deletionTimestamp" not in metadata:
                there[uid].append(replica)
        states = self.states
        return tuple(move for uid, found in there.items() for move in _moves(deployments[uid], found, states))

    async def _seen(self, used: Collection[str]) -> dict[str, ClusterSeen]:
        """Return what is seen of every cluster; the data path of those that are ``used``."""
        clusters = tuple(self._informers[_CLUSTER])
        names = [cluster["metadata"]["name"] for cluster in clusters]
        apis, _ = await asyncio.gather(
            asyncio.gather(*map(self._api, names)),
            self._data_path.look({name: self._addresses(name) for name in names if name in used}),
        )
        return {
            name: ClusterSeen(
                Witnesses(api, self._data_path.of(name), self._heartbeats.of(name)),
                scheduler_input.read_cluster(item).region or "",
                gone="deletionTimestamp" in item["metadata"],
            )
            for name, item, api in zip(names, clusters, apis, strict=True)
        }

    async def _api(self, name: str) -> Witness:
        """Return whether a cluster's API server answers. One that refuses does, so nothing is known."""
        connection = self._clusters.get(name)
        if connection is None or connection.loading:
            return Witness()
        if not connection.problem:
            return Witness(Evidence.GOOD)
        if not await _silence(connection.client):
            return Witness()
        return Witness(Evidence.BAD, f"the API server doesn't respond: {connection.problem}")

    def _tell(self, before: Memory | None, deployments: Mapping[str, ModelDeployment]) -> None:
        old, new = before or Memory(), self._memory or Memory()
        if old.paused != new.paused:
            _log.warning("failover is %s", f"paused: {new.paused}" if new.paused else "no longer paused")
        for name in sorted(old.standings.keys() | new.standings.keys()):
            if _summarize(old.report_for_cluster(name)) != _summarize(new.report_for_cluster(name)):
                self._changed(OwnerKey(_CLUSTER, "", name))
        for uid, deployment in deployments.items():
            if old.report_for_deployment(uid) != new.report_for_deployment(uid):
                self._changed(OwnerKey(_DEPLOYMENT, deployment.metadata.namespace, deployment.metadata.name))


def _summarize(watched: Watched) -> tuple[object, ...]:
    """Return what the condition of a cluster shows."""
    standing = watched.standing
    if standing is None:
        return ()
    return (standing.state, standing.cause, watched.paused if standing.state is ClusterState.LOST else "")


def _moves(
    deployment: ModelDeployment, replicas: Iterable[Object], states: Mapping[str, ClusterState]
) -> Iterator[Move]:
    """Yield the replicas of one deployment on each cluster, and whether enough others serve."""
    there = Counter(str(replica["spec"].get("clusterName", "")) for replica in replicas)
    serving = sum(
        is_true(replica, READY)
        and find_reported_error(replica) is None
        and states.get(str(replica["spec"].get("clusterName", ""))) in _ANSWERS
        for replica in replicas
    )
    settings = deployment.spec.failover
    for name, count in sorted(there.items()):
        if settings is not None:
            replaced = serving >= deployment.spec.replicas
            metadata = deployment.metadata
            yield Move(name, metadata.uid, settings.after_s, count, replaced, metadata.namespace)


async def _silence(client: Client) -> str | None:
    """Return why an API server does not answer; None if it does, also with a refusal."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            await client.get_raw("/version")
    except (errors.Unreachable, TimeoutError) as error:
        return str(error) or f"no answer within {_ANSWER_S:g} s"
    except errors.KubernetesError:
        return None
    return None
