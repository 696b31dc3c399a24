"""Snapshot: the rows of every page and the timeline, computed from the objects of a fleet.

Used devices are those of the scheduler's accounting, as in the metrics.

The timeline is one list of events and changes of conditions. Kubernetes deletes an event after an hour, and a
condition keeps only its last change.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from modelplane.api.conditions.reasons import ModelDeploymentCondition
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import KINDS
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.report_tables import Explained
from modelplane.compose.conditions import READY
from modelplane.compose.deployment import scheduler_input, standby
from modelplane.compose.memo import per_version
from modelplane.compose.readiness import condition_of, read_state
from modelplane.compose.replica import replica_endpoint
from modelplane.controllers import state_samples
from modelplane.offline.plan.fleet_of_files import Files, assemble
from modelplane.telemetry import metric_definitions

Objects = Mapping[str, Sequence[Object]]
"""The objects of a fleet by kind."""

EVENT = "Event"

_OURS = {kind.name for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one pool, or their sum; more may be used than exist."""

    name: str
    total: int = 0
    used: int = 0

    @property
    def free(self) -> int:
        """Free devices, at least 0."""
        return max(self.total - self.used, 0)

    @property
    def percent(self) -> int:
        """Used share, from 0 to 100."""
        return min(round(100 * self.used / self.total), 100) if self.total else 0


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool."""

    name: str
    nodes: int
    devices: tuple[Devices, ...]
    spot: bool = False


@dataclass(frozen=True, slots=True)
class Readiness:
    """Readiness of an object, with the cause and the time of its last change (RFC 3339, or empty)."""

    ready: bool
    why: str
    since: str
    word: str
    """The state in one word."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """An InferenceCluster."""

    name: str
    region: str
    readiness: Readiness
    pools: tuple[Pool, ...]
    replicas: int

    @property
    def devices(self) -> Devices:
        """Sum over its pools."""
        return sum_devices(device for pool in self.pools for device in pool.devices)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A ModelDeployment; ``diagnosis`` says why replicas have no place, or do not run."""

    namespace: str
    name: str
    desired: int
    placed: int
    serving: int
    readiness: Readiness
    diagnosis: str
    cost: str
    spot: int = 0
    """Placed replicas that are on spot pools."""


@dataclass(frozen=True, slots=True)
class Service:
    """A ModelService."""

    namespace: str
    name: str
    readiness: Readiness
    address: str
    endpoints: int


@dataclass(frozen=True, slots=True)
class Region:
    """The clusters of a region; an empty name is of those without one."""

    name: str
    clusters: tuple[Cluster, ...]

    @property
    def ready(self) -> int:
        """Number of ready clusters."""
        return sum(cluster.readiness.ready for cluster in self.clusters)

    @property
    def devices(self) -> Devices:
        """Sum over its clusters."""
        return sum_devices(cluster.devices for cluster in self.clusters)


@dataclass(frozen=True)
class Snapshot:
    """A fleet at one moment."""

    objects: Objects = field(default_factory=dict)
    explained: dict[tuple[str, str, str], Explained] = field(default_factory=dict, compare=False)
    """Explanations that a page has asked for, by identity: each tab asks for its own again."""

    @cached_property
    def files(self) -> Files:
        """The fleet as explanations read it."""
        return assemble(self.without_events, live=True)

    @property
    def without_events(self) -> tuple[Object, ...]:
        """The objects from which a fleet is computed."""
        return tuple(item for kind, items in self.objects.items() if kind != EVENT for item in items)

    def list_objects(self, kind: str) -> Sequence[Object]:
        """Return the objects of a kind."""
        return self.objects.get(kind, ())

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object; None if there is none of that name."""
        return next((item for item in self.list_objects(kind) if _key(item) == (namespace, name)), None)

    @cached_property
    def _devices(self) -> Mapping[tuple[str, str], tuple[Devices, ...]]:
        """The devices by cluster and pool; empty while a replica cannot be read."""
        counted: defaultdict[tuple[str, str], dict[str, dict[str, int]]] = defaultdict(dict)
        needed = (kind_name(InferenceCluster), kind_name(ModelReplica))
        state = state_samples.ControllersState(objects={kind: self.list_objects(kind) for kind in needed})
        for sample in state_samples.samples(state):
            if sample.metric is metric_definitions.DEVICES:
                cluster, pool, device, what = sample.labels
                counted[cluster, pool].setdefault(device, {})[what] = int(sample.value)
        return {
            pool: tuple(Devices(name, count["total"], count["used"]) for name, count in devices.items())
            for pool, devices in counted.items()
        }

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """All clusters by region and name."""
        running = Counter(
            str(item["spec"].get("clusterName", "")) for item in self.list_objects(kind_name(ModelReplica))
        )
        clusters = (
            _cluster(item, self._devices, running[item["metadata"]["name"]])
            for item in self.list_objects(kind_name(InferenceCluster))
        )
        return tuple(sorted(clusters, key=lambda cluster: (not cluster.region, cluster.region, cluster.name)))

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The regions by name; last, the clusters without one."""
        grouped: defaultdict[str, list[Cluster]] = defaultdict(list)
        for cluster in self.clusters:
            grouped[cluster.region].append(cluster)
        return tuple(Region(name, tuple(clusters)) for name, clusters in grouped.items())

    @cached_property
    def deployments(self) -> tuple[Deployment, ...]:
        """All deployments, those that are not ready first."""
        return tuple(sorted(map(_deployment, self.list_objects(kind_name(ModelDeployment))), key=_urgency))

    @cached_property
    def services(self) -> tuple[Service, ...]:
        """All services, those that are not ready first."""
        listed = self.list_objects(kind_name(ModelEndpoint))
        endpoints = _Labeled(item for item in listed if not replica_endpoint.is_placeholder(item))
        services = (_service(item, endpoints) for item in self.list_objects(kind_name(ModelService)))
        return tuple(sorted(services, key=_urgency))

    @cached_property
    def devices(self) -> Devices:
        """Sum over all clusters."""
        return sum_devices(cluster.devices for cluster in self.clusters)

    @property
    def countable(self) -> bool:
        """False while the used devices are unknown, because a replica cannot be read."""
        return bool(self._devices) or not any(cluster.pools for cluster in self.clusters)


def sum_devices(devices: Iterable[Devices]) -> Devices:
    """Return the sum of devices."""
    counted = tuple(devices)
    return Devices("", sum(device.total for device in counted), sum(device.used for device in counted))


def find_readiness(item: Object) -> Readiness:
    """Return the readiness of an object, from its status."""
    state, since = read_state(item), str(condition_of(item, READY).get("lastTransitionTime") or "")
    return Readiness(state.is_ready, state.cause, since, state.word)


def _key(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _urgency(row: Deployment | Service) -> tuple[bool, str, str]:
    return row.readiness.ready, row.namespace, row.name


@per_version
def _pools(item: Mapping[str, Any]) -> tuple[tuple[str, int, bool], ...]:
    return tuple((pool.name, pool.nodes, pool.spot) for pool in scheduler_input.read_cluster(item).pools)


def _cluster(item: Object, devices: Mapping[tuple[str, str], tuple[Devices, ...]], replicas: int) -> Cluster:
    name = item["metadata"]["name"]
    pools = tuple(
        Pool(pool, nodes, devices.get((name, pool), ()), spot) for pool, nodes, spot in _pools(item)
    )
    return Cluster(
        name, scheduler_input.read_cluster(item).region or "", find_readiness(item), pools, replicas
    )


def _deployment(item: Object) -> Deployment:
    namespace, name = _key(item)
    status = item.get("status") or {}
    counts, cost = status.get("replicas") or {}, status.get("cost") or {}
    scheduled = condition_of(item, ModelDeploymentCondition.REPLICAS_SCHEDULED)
    return Deployment(
        namespace,
        name,
        desired=standby.desired(item),
        placed=counts.get("total", 0),
        serving=counts.get("ready", 0),
        readiness=find_readiness(item),
        diagnosis=str(scheduled.get("message") or "")
        if scheduled.get("status") == "False"
        else standby.explain_idle(item) or "",
        cost=f"{cost['perHour']} {cost['currency']}" if cost else "",
        spot=counts.get("spot", 0),
    )


class _Labeled:
    """Objects by namespace and label, so that a selector is compared with few of them."""

    def __init__(self, items: Iterable[Object]) -> None:
        self._all: defaultdict[str, set[str]] = defaultdict(set)
        self._having: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for item in items:
            namespace, name = _key(item)
            self._all[namespace].add(name)
            for key, value in (item["metadata"].get("labels") or {}).items():
                self._having[namespace, key, value].add(name)

    def find_names(self, namespace: str, selector: Mapping[str, str]) -> set[str]:
        """Return the names of the objects that have all labels."""
        having = [self._having.get((namespace, *pair), set()) for pair in selector.items()]
        return set.intersection(*having) if having else self._all.get(namespace, set())


def _service(item: Object, endpoints: _Labeled) -> Service:
    namespace, name = _key(item)
    selectors = [entry["selector"].get("matchLabels") or {} for entry in item["spec"].get("endpoints", ())]
    selected = len(set().union(*(endpoints.find_names(namespace, selector) for selector in selectors)))
    address = str((item.get("status") or {}).get("address") or "")
    return Service(namespace, name, find_readiness(item), address, selected)


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, or the last change of a condition; ``at`` is RFC 3339."""

    at: str
    warning: bool
    kind: str
    namespace: str
    name: str
    reason: str
    note: str
    count: int = 1


def build_timeline(snapshot: Snapshot) -> tuple[Entry, ...]:
    """Return the events about Modelplane's objects, newest first."""
    events = (_of_event(item) for item in snapshot.list_objects(EVENT))
    return _newest_first(event for event in events if event.kind in _OURS)


def list_object_events(snapshot: Snapshot, item: Object) -> tuple[Entry, ...]:
    """Return the events about one object, and the last changes of its conditions."""
    metadata = item["metadata"]
    meant = (item["kind"], metadata.get("namespace", ""), metadata["name"])
    events = [
        event
        for event in map(_of_event, snapshot.list_objects(EVENT))
        if (event.kind, event.namespace, event.name) == meant
    ]
    told = {(event.reason, event.note) for event in events}
    changes = (change for change in _of_conditions(item) if (change.reason, change.note) not in told)
    return _newest_first((*events, *changes))


def _newest_first(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.at[:19], reverse=True))


def _of_event(item: Object) -> Entry:
    about, series = item.get("regarding") or {}, item.get("series") or {}
    at = series.get("lastObservedTime") or item.get("eventTime") or item["metadata"]["creationTimestamp"]
    return Entry(
        str(at),
        item.get("type") == "Warning",
        str(about.get("kind", "")),
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        str(item.get("reason", "")),
        str(item.get("note", "")),
        int(series.get("count", 1)),
    )


def _of_conditions(item: Object) -> Iterator[Entry]:
    metadata = item["metadata"]
    for condition in (item.get("status") or {}).get("conditions") or ():
        if at := condition.get("lastTransitionTime"):
            message = str(condition.get("message") or "")
            yield Entry(
                str(at),
                False,
                item["kind"],
                metadata.get("namespace", ""),
                metadata["name"],
                str(condition.get("reason") or condition["type"]),
                f"{condition['type']} is {condition['status']}{f': {message}' if message else ''}",
            )
