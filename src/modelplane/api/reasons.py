"""Condition types and reasons: one word each for what a program may compare.

A word, once published, keeps its meaning; a new case gets a new word. The
meanings are in ``reason_meanings``.
"""

from enum import StrEnum


class CommonCondition(StrEnum):
    """What every kind reports."""

    SYNCED = "Synced"
    READY = "Ready"
    ADMITTED = "Admitted"


class SyncedReason(StrEnum):
    """Whether what was decided could be written."""

    RECONCILE_SUCCESS = "ReconcileSuccess"
    RECONCILE_ERROR = "ReconcileError"
    RECONCILE_PAUSED = "ReconcilePaused"


class ReadyReason(StrEnum):
    """How far an object is, in one word for all kinds."""

    AVAILABLE = "Available"
    CREATING = "Creating"
    UNAVAILABLE = "Unavailable"
    DELETING = "Deleting"


class AdmittedReason(StrEnum):
    """Why an object is composed, or not at all."""

    RESERVED_NAMESPACE = "ReservedNamespace"


class InferenceClassCondition(StrEnum):
    """What an InferenceClass reports."""

    ACCEPTED = "Accepted"


class InferenceClassReason(StrEnum):
    """Why."""

    AVAILABLE = "Available"


class InferenceClusterCondition(StrEnum):
    """What an InferenceCluster reports."""

    CLUSTER_READY = "ClusterReady"
    BACKEND_READY = "BackendReady"


class InferenceClusterReason(StrEnum):
    """Why."""

    CLUSTER_RUNNING = "ClusterRunning"
    WAITING_FOR_CLASSES = "WaitingForClasses"
    INVALID_NODE_POOL = "InvalidNodePool"
    PROVISIONING = "Provisioning"
    UNREACHABLE = "Unreachable"
    BACKEND_HEALTHY = "BackendHealthy"
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    INSTALLING = "Installing"


class InferenceGatewayCondition(StrEnum):
    """What an InferenceGateway reports."""

    CONTROLLER_READY = "ControllerReady"


class InferenceGatewayReason(StrEnum):
    """Why."""

    CONTROLLER_HEALTHY = "ControllerHealthy"
    INSTALLING = "Installing"
    IGNORED = "Ignored"


class ModelCacheCondition(StrEnum):
    """What a ModelCache reports."""

    CLUSTERS_MATCHED = "ClustersMatched"
    ARTIFACT_READY = "ArtifactReady"


class ModelCacheReason(StrEnum):
    """Why."""

    MATCHED = "Matched"
    NO_CLUSTERS = "NoClusters"
    STAGED = "Staged"
    AUTH_SECRET_MISSING = "AuthSecretMissing"  # noqa: S105  a reason, not a secret
    FAILED = "Failed"
    PARTIAL = "Partial"
    HYDRATING = "Hydrating"


class ModelDeploymentCondition(StrEnum):
    """What a ModelDeployment reports."""

    REPLICAS_SCHEDULED = "ReplicasScheduled"
    REPLICAS_READY = "ReplicasReady"
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"


class ModelDeploymentReason(StrEnum):
    """Why."""

    REPLICAS_CREATED = "ReplicasCreated"
    NO_CLUSTERS = "NoClusters"
    INVALID_NODE_SELECTOR = "InvalidNodeSelector"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    SCHEDULING = "Scheduling"
    ALL_REPLICAS_READY = "AllReplicasReady"
    NO_REPLICAS_SCHEDULED = "NoReplicasScheduled"
    MODEL_STARTING = "ModelStarting"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    UPDATING = "Updating"
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"
    MODEL_CACHE_UNRESOLVED = "ModelCacheUnresolved"
    MODEL_CACHE_NOT_FOUND = "ModelCacheNotFound"


class ModelEndpointCondition(StrEnum):
    """What a ModelEndpoint reports."""

    ROUTING_READY = "RoutingReady"


class ModelEndpointReason(StrEnum):
    """Why."""

    BACKEND_CONFIGURED = "BackendConfigured"
    WAITING_FOR_BACKEND = "WaitingForBackend"
    INVALID_URL = "InvalidURL"


class ModelReplicaCondition(StrEnum):
    """What a ModelReplica reports."""

    MODEL_ACCEPTED = "ModelAccepted"
    MODEL_READY = "ModelReady"
    ANNOUNCED = "Announced"


class ModelReplicaReason(StrEnum):
    """Why."""

    ACCEPTED = "Accepted"
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    WAITING_FOR_CACHE = "WaitingForCache"
    DEPLOYING = "Deploying"
    UPDATING = "Updating"
    UNSUPPORTED_TOPOLOGY = "UnsupportedTopology"
    SERVING = "Serving"
    WAITING_FOR_MODEL = "WaitingForModel"
    MODEL_STARTING = "ModelStarting"
    ENDPOINT_CREATED = "EndpointCreated"
    NOT_SERVING = "NotServing"
    NO_ADDRESS = "NoAddress"
    DRAINING = "Draining"


class ModelServiceCondition(StrEnum):
    """What a ModelService reports."""

    ENDPOINTS_RESOLVED = "EndpointsResolved"
    ROUTING_READY = "RoutingReady"


class ModelServiceReason(StrEnum):
    """Why."""

    RESOLVED = "Resolved"
    NO_ENDPOINTS = "NoEndpoints"
    ROUTE_CONFIGURED = "RouteConfigured"
    CONFIGURING = "Configuring"
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    TOO_MANY_ENDPOINTS = "TooManyEndpoints"
