"""ModelReplica: one complete serving instance, pinned to one cluster and its pools.

Written by a ModelDeployment; it can also be written by hand.
"""

import datetime as dt
from typing import Annotated

from modelplane.api import labels
from modelplane.api.fields.cluster.devices import MAX_UNHEALTHY, DeviceSelector, UnhealthyDevice
from modelplane.api.fields.cluster.node_pools import ReplicaEviction
from modelplane.api.fields.pods.engines import (
    PHASE_RULES,
    ROLE_RULE,
    SERVICE_NAME_RULES,
    WORKER_RULE,
    EngineShape,
    MemberPods,
    Serving,
    ServingBackend,
)
from modelplane.api.fields.pods.pod_scheduler import PodScheduler
from modelplane.api.meta import LocalReference, Model, ObjectMeta, Status
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, Rule, about


class ResolvedRequest(Model):
    """Devices that each pod claims."""

    name: Annotated[
        str,
        about("Name of the request in the ResourceClaim.", min_length=1, max_length=63, pattern=DNS_LABEL),
    ]
    device_class_name: Annotated[
        str,
        about("DRA DeviceClass to claim through.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ]
    count: Annotated[int, about("Number of devices that each pod claims.", ge=1, le=64)] = 1
    selectors: Annotated[
        tuple[DeviceSelector, ...],
        about("Conditions, all of which a device must meet.", max_length=8, atomic=True),
    ] = ()


class PlacedMember(MemberPods):
    """A pod of the engine, or the identical pods of a gang's workers, with their node pool."""

    __rules__ = (WORKER_RULE,)

    node_pool_name: Annotated[
        str,
        about(
            f"Node pool that the member is pinned to; nodes carry its name as the label {labels.POOL}.",
            min_length=1,
            max_length=63,
            pattern=LABEL_VALUE,
        ),
    ]
    device_requests: Annotated[
        tuple[ResolvedRequest, ...],
        about(
            "Devices that each pod claims. Absent for a member that claims none.",
            min_length=1,
            max_length=16,
            keys=("name",),
        ),
    ] = ()


class PlacedEngine(EngineShape):
    """A placed engine."""

    __rules__ = (
        ROLE_RULE,
        Rule(
            "self.members.exists(m, has(m.deviceRequests))",
            "an engine must claim a device: give at least one member deviceRequests",
        ),
    )

    members: Annotated[
        tuple[PlacedMember, ...],
        about(
            "The pods of the engine: one Standalone, or one Leader and one Worker.",
            min_length=1,
            max_length=2,
            atomic=True,
        ),
    ]


class ModelReplicaSpec(Model):
    """The engines of the replica, and their cluster."""

    __rules__ = PHASE_RULES

    cluster_name: Annotated[
        str,
        about(
            "InferenceCluster that the replica is pinned to.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    model_cache_ref: (
        Annotated[LocalReference, about("ModelCache of this namespace, mounted in every pod.")] | None
    ) = None
    serving: Annotated[Serving, about("Serving mode and routing. Absent: mode Unified.")] | None = None
    engines: Annotated[
        tuple[PlacedEngine, ...],
        about("Engines of the replica, with their placement.", min_length=1, max_length=8, keys=("name",)),
    ]
    backend: (
        Annotated[
            ServingBackend,
            about(
                "Workloads of the engines. Modelplane: Deployments and LeaderWorkerSets. KServe: "
                "LLMInferenceServices. A ModelDeployment sets it from the InferenceCluster when "
                "it makes the replica. A replica that runs cannot change it. Absent: Modelplane."
            ),
        ]
        | None
    ) = None
    pod_scheduler: (
        Annotated[
            PodScheduler,
            about(
                "Scheduler of the pods. A ModelDeployment sets it from the InferenceCluster when it makes "
                "the replica. Absent: kube-scheduler."
            ),
        ]
        | None
    ) = None
    draining: Annotated[
        bool,
        about("True before the replica is deleted: its endpoint is removed, and its engines keep running."),
    ] = False

    def find_backend(self) -> ServingBackend:
        """Return what runs the pods of the engines."""
        return self.backend or ServingBackend.MODELPLANE


MAX_MESSAGE = 2048
"""Characters of the message of a failure."""


class EngineFailure(Model):
    """The last failure of an engine of several pods, which are all replaced at each failure."""

    engine: Annotated[str, about("Name of the engine.", max_length=63)]
    message: Annotated[str, about("The pod that failed first, and how.", max_length=MAX_MESSAGE)]
    failed_at: Annotated[dt.datetime, about("Time of the failure.")]
    failures: Annotated[int, about("Failures since the engine last served.", ge=1)]


class ModelReplicaStatus(Status):
    """Status of the replica."""

    clusters: Annotated[
        tuple[str, ...],
        about(
            "InferenceClusters that may have objects of this replica, deleted before the replica is.",
            unique=True,
        ),
    ] = ()
    eviction: (
        Annotated[
            ReplicaEviction,
            about(
                "Notice that a node under the replica is taken back. It is being replaced. Absent: there is "
                "none."
            ),
        ]
        | None
    ) = None
    engine_failures: Annotated[
        tuple[EngineFailure, ...],
        about("The last failure of each engine of several pods that does not serve.", keys=("engine",)),
    ] = ()
    unhealthy_devices: Annotated[
        tuple[UnhealthyDevice, ...],
        about(
            "Devices of its pods that their drivers report as unhealthy (KEP-4680). The replica stays.",
            max_length=MAX_UNHEALTHY,
            atomic=True,
        ),
    ] = ()


class ModelReplica(Model):
    """One complete serving instance of a model on one cluster."""

    __rules__ = SERVICE_NAME_RULES

    metadata: ObjectMeta
    spec: Annotated[ModelReplicaSpec, about("The engines of the replica, and their cluster.")]
    status: Annotated[ModelReplicaStatus, about("Status of the replica.")] = ModelReplicaStatus()
