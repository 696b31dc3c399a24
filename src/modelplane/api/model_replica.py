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
        about("Conditions. A device must match all of them.", max_length=8, atomic=True),
    ] = ()


class PlacedMember(MemberPods):
    """A pod of the engine, or the identical worker pods of a gang, with the node pool."""

    __rules__ = (WORKER_RULE,)

    node_pool_name: Annotated[
        str,
        about(
            f"Node pool of the member, by the label {labels.POOL} of the nodes.",
            min_length=1,
            max_length=63,
            pattern=LABEL_VALUE,
        ),
    ]
    device_requests: Annotated[
        tuple[ResolvedRequest, ...],
        about(
            "Devices that each pod claims. Absent for a member without devices.",
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
    """The engines and the cluster of the replica."""

    __rules__ = PHASE_RULES

    cluster_name: Annotated[
        str,
        about(
            "InferenceCluster of the replica.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    model_cache_ref: (
        Annotated[LocalReference, about("ModelCache in this namespace, mounted in every pod.")] | None
    ) = None
    serving: Annotated[Serving, about("Serving mode and routing. Default: mode Unified.")] | None = None
    engines: Annotated[
        tuple[PlacedEngine, ...],
        about("Engines of the replica, including placement.", min_length=1, max_length=8, keys=("name",)),
    ]
    backend: (
        Annotated[
            ServingBackend,
            about(
                "Workloads of the engines. Modelplane: Deployments and LeaderWorkerSets. KServe: "
                "LLMInferenceServices. The ModelDeployment copies this value from the "
                "InferenceCluster when it creates the replica. You can't change the value of a "
                "running replica. Default: Modelplane."
            ),
        ]
        | None
    ) = None
    pod_scheduler: (
        Annotated[
            PodScheduler,
            about(
                "Pod scheduler. The ModelDeployment copies this value from the InferenceCluster when "
                "it creates the replica. Default: kube-scheduler."
            ),
        ]
        | None
    ) = None
    draining: Annotated[
        bool,
        about(
            "Whether the replica is about to be deleted. The endpoint is removed, and the "
            "engines keep running."
        ),
    ] = False

    def find_backend(self) -> ServingBackend:
        """Return what runs the pods of the engines."""
        return self.backend or ServingBackend.MODELPLANE


MAX_MESSAGE = 2048
"""Characters of the message of a failure."""


class EngineFailure(Model):
    """The last failure of an engine with several pods. All pods are replaced after a failure."""

    engine: Annotated[str, about("Name of the engine.", max_length=63)]
    message: Annotated[str, about("The pod that failed first, and how.", max_length=MAX_MESSAGE)]
    failed_at: Annotated[dt.datetime, about("Time of the failure.")]
    failures: Annotated[int, about("Number of failures since the engine last served.", ge=1)]


class ModelReplicaStatus(Status):
    """Status of the replica."""

    clusters: Annotated[
        tuple[str, ...],
        about(
            "InferenceClusters on which objects of the replica can exist. They are deleted "
            "before the replica.",
            unique=True,
        ),
    ] = ()
    eviction: (
        Annotated[
            ReplicaEviction,
            about(
                "Notice that the cloud reclaims a node of the replica. The replica is being "
                "replaced. Absent without such a notice."
            ),
        ]
        | None
    ) = None
    engine_failures: Annotated[
        tuple[EngineFailure, ...],
        about("The last failure of each engine with several pods that is not serving.", keys=("engine",)),
    ] = ()
    unhealthy_devices: Annotated[
        tuple[UnhealthyDevice, ...],
        about(
            "Devices of the pods that their drivers report as unhealthy (KEP-4680). The replica "
            "is not removed.",
            max_length=MAX_UNHEALTHY,
            atomic=True,
        ),
    ] = ()


class ModelReplica(Model):
    """One complete serving instance of a model on one cluster."""

    __rules__ = SERVICE_NAME_RULES

    metadata: ObjectMeta
    spec: Annotated[ModelReplicaSpec, about("The engines and the cluster of the replica.")]
    status: Annotated[ModelReplicaStatus, about("Status of the replica.")] = ModelReplicaStatus()
