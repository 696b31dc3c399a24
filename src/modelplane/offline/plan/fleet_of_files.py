"""A fleet read from files: the devices of each cluster, and the placement of deployments.

Composition and placement are the controllers' own functions. This module adds only what files leave out: a
cluster without a status is assumed ready, with a gateway, every capability and the devices that its pools and
their classes declare; a replica without a status has no endpoint.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.conditions.reasons import (
    InferenceClusterReason,
    ModelDeploymentCondition,
    ModelReplicaCondition,
    ModelReplicaReason,
)
from modelplane.api.device_quota import DeviceQuota
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model, Object, get_full_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.names import check_reserved
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.cel import SelectorError
from modelplane.compose import device_quota, workload_kinds
from modelplane.compose.cluster import inference_cluster
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.composition import Composition, Desired, Facts, NoFacts, Request, Requirement
from modelplane.compose.conditions import READY
from modelplane.compose.deployment import (
    deployment_failover,
    model_deployment,
    scheduler_input,
    scheduler_quotas,
)
from modelplane.compose.deployment.deployment_facts import DeploymentFacts, DeploymentRequest
from modelplane.compose.deployment.standby import standby
from modelplane.compose.readiness import is_true
from modelplane.deciders.canary import UNDECIDED
from modelplane.offline.files.identities import add_uids, merge_edits, replace_version
from modelplane.offline.files.store import Store
from modelplane.user_error import UserError


def sort_by_preference(deployments: Iterable[Object]) -> list[Object]:
    """Return deployments in their order, those without a standby's settings first, then by their distance."""
    given = list(deployments)
    preferred = {get_full_name(deployment): _preferred(deployment) for deployment in given}
    return sorted(given, key=lambda deployment: _depth(get_full_name(deployment), preferred))


_Key = tuple[str, str]


def _preferred(deployment: Object) -> _Key | None:
    settings = deployment["spec"].get("standbyFor")
    return (deployment["metadata"]["namespace"], settings["name"]) if settings else None


def _depth(key: _Key, preferred: dict[_Key, _Key | None]) -> int:
    """Return how many of the deployments are before one; all of them for one in a cycle."""
    depth, above = 0, preferred.get(key)
    while above is not None and depth < len(preferred):
        depth, above = depth + 1, preferred.get(above)
    return depth


NEVER: Final = "1970-01-01T00:00:00Z"
"""Last transition of a condition that no server has stored: there is no clock here."""

_ASSUMED: Final[Mapping[str, Any]] = {
    "gateway": {"address": "assumed.invalid"},
    "capabilities": {"dra": True, **dict.fromkeys(workload_kinds.capabilities(), True)},
}
_READY: Final = {
    "type": READY,
    "status": "True",
    "reason": "Available",
    "lastTransitionTime": NEVER,
}


class Files(msgspec.Struct, frozen=True):
    """The objects of a fleet."""

    store: Store
    assumed: tuple[str, ...] = ()
    """Clusters whose files have no status."""
    deployments: tuple[Object, ...] = ()
    """Every ModelDeployment, in the order in which they were given."""
    live: bool = False
    """True if a server gave the objects. Nothing is assumed then: a cluster without a status is new."""


class Placed(msgspec.Struct, frozen=True):
    """A placement of a deployment, and the fleet with the deployment's replicas in their places."""

    placement: scheduler.Placement
    files: Files
    rollout: str = ""
    """Progress of the rollout; empty without ``spec.rollout``."""
    standby: str = ""
    """State of the standby; empty without ``spec.standbyFor``."""


def assemble(objects: Iterable[Object], written: Iterable[Object] = (), *, live: bool = False) -> Files:
    """Return the fleet of objects with manifests written over them.

    A later object replaces an earlier one of the same name. In a `live` fleet, only what is written is
    assumed to be ready.
    """
    everything = tuple(objects)
    over = merge_edits(everything, written)
    store = Store()
    for item in add_uids((*everything, *over)):
        store.add(withdraw_endpoint(item))
    names = {item["metadata"]["name"] for item in over}
    assumed = assume_ready(store, names if live else None)
    _publish_quotas(
        store, [quota for quota in store.list_kind(DeviceQuota) if quota["metadata"]["name"] in names]
    )
    deployments = [item for item in store if item["kind"] == kind_of(ModelDeployment).name]
    # One without a creation time is new, and sorts after those of a server.
    deployments.sort(key=lambda item: str(item["metadata"].get("creationTimestamp", "~")))
    return Files(store, assumed, tuple(deployments), live)


def withdraw_endpoint(item: Object) -> Object:
    """Return a replica without a status as one without an endpoint; return other objects unchanged."""
    if item["kind"] != kind_of(ModelReplica).name or item.get("status"):
        return item
    without = {
        "type": str(ModelReplicaCondition.ROUTING_READY),
        "status": "False",
        "reason": str(ModelReplicaReason.NOT_SERVING),
        "lastTransitionTime": NEVER,
    }
    return {**item, "status": {"conditions": [without]}}


def is_assumed_silent(replica: Object) -> bool:
    """Return True if the status of a replica is the one that ``unannounced`` gives it."""
    conditions = replica.get("status", {}).get("conditions") or ()
    return bool(conditions) and all(condition["lastTransitionTime"] == NEVER for condition in conditions)


def assume_ready(store: Store, names: Collection[str] | None = None) -> tuple[str, ...]:
    """Add the status that a server would publish to each cluster and quota without one; return the clusters.

    With `names`, only to those.
    """
    assumed = []
    for cluster in _without_status(store, InferenceCluster, names):
        assumed.append(cluster["metadata"]["name"])
        store.add(_published(cluster, store))
    _publish_quotas(store, _without_status(store, DeviceQuota, names))
    return tuple(assumed)


def _without_status(store: Store, type_: type[Model], names: Collection[str] | None) -> list[Object]:
    unpublished = [item for item in store.list_kind(type_) if not item.get("status")]
    return [item for item in unpublished if names is None or item["metadata"]["name"] in names]


def _publish_quotas(store: Store, quotas: Iterable[Object]) -> None:
    """Add the values of PriorityClasses to the DeviceQuotas that allow them; keep known values."""
    for quota in quotas:
        try:
            composition = device_quota.compose(
                _request(quota, DeviceQuota, device_quota.requirements, store, NoFacts())
            )
        except InvalidObject:
            continue  # the placement of its namespaces says so
        if isinstance(composition, Composition):
            status = convert_to_plain(dict(composition.status))
            by_name = {
                priority_class["name"]: priority_class
                for priority_class in (quota.get("status") or {}).get("priorityClasses", ())
            }
            by_name |= {
                priority_class["name"]: priority_class for priority_class in status["priorityClasses"]
            }
            published = {**quota, "status": {**status, "priorityClasses": [*by_name.values()]}}
            store.add(replace_version(published))


def list_assumed_ready(files: Files) -> tuple[str, ...]:
    """Return the clusters without a status that are assumed ready: those whose classes the files have."""
    clusters = files.store.list_kind(InferenceCluster)
    ready = {cluster["metadata"]["name"] for cluster in clusters if is_true(cluster, READY)}
    return tuple(name for name in files.assumed if name in ready)


def to_provision(files: Files) -> frozenset[str]:
    """Return the clusters that a cloud has yet to create: those whose API server has never been read."""
    return frozenset(
        cluster["metadata"]["name"]
        for cluster in files.store.list_kind(InferenceCluster)
        if cluster["spec"]["cluster"]["source"] != Source.EXISTING
        and (cluster["metadata"]["name"] in files.assumed or "capabilities" not in cluster.get("status", {}))
    )


def _published(cluster: Object, store: Store) -> Object:
    """Return a cluster with the status that it would publish if it existed and were ready."""
    try:
        request = _request(cluster, InferenceCluster, inference_cluster.requirements, store, ClusterFacts())
        composition = inference_cluster.compose(request)
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error
    status = {**composition.status, **_ASSUMED}
    missing = [
        condition
        for condition in composition.conditions
        if condition.reason == InferenceClusterReason.WAITING_FOR_CLASSES
    ]
    ready = {**_READY, "status": "False", "message": missing[0].message} if missing else _READY
    return replace_version({**cluster, "status": convert_to_plain({**status, "conditions": [ready]})})


def convert_to_plain(value: Any) -> Any:
    """Return a value with JSON's types only."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _request(
    owner: Object,
    type_: type[Model],
    requirements: Callable[[Any], tuple[Requirement, ...]],
    store: Store,
    facts: Facts,
) -> Request[Any, Facts]:
    # Not by the table of composers, which imports the compositions of all kinds.
    decoded = decode_as(type_, owner)
    required = {requirement.key: store.find(requirement) for requirement in requirements(decoded)}
    return Request(decoded, {}, required, facts)


def build_deployment_facts(deployment: ModelDeployment) -> DeploymentFacts:
    """Return the facts of a deployment: nothing is decided here, and failover is as its status reports."""
    return DeploymentFacts(UNDECIDED, deployment_failover.read_reported(deployment))


def _deployment_request(
    deployment: Object, store: Store, observed: Mapping[str, Object]
) -> DeploymentRequest:
    facts = build_deployment_facts(decode_as(ModelDeployment, deployment))
    request = _request(deployment, ModelDeployment, model_deployment.requirements, store, facts)
    further = {
        requirement.key: store.find(requirement) for requirement in scheduler_quotas.further(store.find)
    }
    return replace(request, observed=observed, required={**request.required, **further})


def place(files: Files, deployment: Object) -> Placed:
    """Place a deployment; the next one is placed on the files of the result. Raises ``UserError``."""
    store = files.store.copy()
    if rejected := check_reserved(deployment["metadata"]["namespace"]):
        raise UserError(f'ModelDeployment "{deployment["metadata"]["name"]}": {rejected.message}')
    try:
        observed = _children(deployment, store)
        decided = standby(_deployment_request(deployment, store, observed))
        placement = model_deployment.place(decided.request)
        composition = decided.joined(model_deployment.compose_placement(decided.request, placement))
    except (InvalidObject, SelectorError) as error:
        raise UserError(f"{error}: correct it") from error
    dropped = {dropped_replica.replica for dropped_replica in placement.dropped}
    for replica in observed.values():
        if replica["metadata"]["name"] in dropped:
            store.remove(replica)
    for child in composition.children:
        if isinstance(child, Desired) and child.manifest["kind"] == kind_of(ModelReplica).name:
            store.add(_merged(observed.get(child.key), child, deployment))
    conditions = [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "lastTransitionTime": NEVER,
        }
        for condition in composition.conditions
    ]
    # Standbys of the deployment read its status.
    status = convert_to_plain({**composition.status, "conditions": conditions})
    store.add(replace_version({**deployment, "status": status}))
    messages = {condition.type: condition.message for condition in composition.conditions}
    return Placed(
        placement,
        replace(files, store=store),
        rollout=messages.get(ModelDeploymentCondition.PROGRESSING, ""),
        standby=messages.get(ModelDeploymentCondition.STANDBY_ACTIVE, ""),
    )


def find_other_places(files: Files, deployment: Object) -> scheduler.Alternatives:
    """Return where one more replica of a deployment would fit. Raises ``UserError``."""
    try:
        request = _deployment_request(deployment, files.store, _children(deployment, files.store))
        return scheduler.list_alternatives(*model_deployment.read_situation(request))
    except (InvalidObject, SelectorError) as error:
        raise UserError(f"{error}: correct it") from error


def take_snapshot(files: Files) -> scheduler.Fleet:
    """Return the fleet as the scheduler sees it. Raises ``UserError``."""
    try:
        return scheduler.Fleet(
            tuple(map(scheduler_input.read_cluster, files.store.list_kind(InferenceCluster))),
            tuple(map(scheduler_input.read_replica, files.store.list_kind(ModelReplica))),
        )
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error


def find_missing_cache(deployment: Object, files: Files) -> str | None:
    """Return the name of a deployment's ModelCache if the files do not hold it; None otherwise."""
    missing = (
        requirement.name
        for requirement in model_deployment.requirements(decode_as(ModelDeployment, deployment))
        if requirement.key == "cache" and not files.store.find(requirement)
    )
    return next(missing, None)


def _children(deployment: Object, store: Store) -> dict[str, Object]:
    """Return a deployment's replicas by key, as the controllers observe them."""
    uid = deployment["metadata"]["uid"]
    keyed = {}
    for replica in store.list_kind(ModelReplica):
        owners = replica["metadata"].get("ownerReferences", ())
        if any(owner.get("controller") and owner["uid"] == uid for owner in owners):
            seen = scheduler_input.read_replica(replica)
            keyed[f"replica-{seen.cluster}-{seen.index}"] = replica
    return keyed


def _merged(observed: Object | None, child: Desired, deployment: Object) -> Object:
    """Return a replica as the controllers write it."""
    manifest = convert_to_plain(child.manifest)
    before = observed or {"metadata": {"uid": f"planned:{manifest['metadata']['name']}"}}
    owner = {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "name": deployment["metadata"]["name"],
        "uid": deployment["metadata"]["uid"],
        "controller": True,
    }
    metadata = {**before["metadata"], **manifest["metadata"], "ownerReferences": [owner]}
    status = {"status": before["status"]} if "status" in before else {}
    return replace_version({**manifest, **status, "metadata": metadata})
