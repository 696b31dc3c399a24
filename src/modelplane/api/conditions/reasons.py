"""Condition types and reasons: one word for each case that a program may compare.

A published word keeps its meaning; a new case gets a new word. The meanings are in ``reason_meanings``.
"""

from enum import StrEnum


class CommonCondition(StrEnum):
    """Condition types of every kind."""

    SYNCED = "Synced"
    READY = "Ready"
    ADMITTED = "Admitted"


class SyncedReason(StrEnum):
    """Reasons of ``Synced``: the outcome of the last reconcile."""

    RECONCILE_SUCCESS = "ReconcileSuccess"
    RECONCILE_ERROR = "ReconcileError"
    RECONCILE_PAUSED = "ReconcilePaused"


class ReadyReason(StrEnum):
    """Reasons of ``Ready``, the same for all kinds."""

    AVAILABLE = "Available"
    CREATING = "Creating"
    UNAVAILABLE = "Unavailable"
    DELETING = "Deleting"


class AdmittedReason(StrEnum):
    """Reasons of ``Admitted``: an object that is not composed."""

    RESERVED_NAMESPACE = "ReservedNamespace"


class DeviceQuotaCondition(StrEnum):
    """Condition types of a DeviceQuota."""

    ACCEPTED = "Accepted"
    EXCEEDS_CAPACITY = "ExceedsCapacity"
    PRIORITY_CLASSES_RESOLVED = "PriorityClassesResolved"


class DeviceQuotaReason(StrEnum):
    """Reasons of a DeviceQuota's conditions."""

    IN_FORCE = "InForce"
    NAMESPACE_CONFLICT = "NamespaceConflict"
    FLEET_TOO_SMALL = "FleetTooSmall"
    WITHIN_CAPACITY = "WithinCapacity"
    RESOLVED = "Resolved"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    PRIORITY_CLASS_UNKNOWN = "PriorityClassUnknown"


class InferenceAutoscalerCondition(StrEnum):
    """Condition types of an InferenceAutoscaler."""

    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"


class InferenceAutoscalerReason(StrEnum):
    """Reasons of an InferenceAutoscaler's conditions."""

    MEASURED = "Measured"
    PAUSED = "Paused"
    NO_METRICS = "NoMetrics"
    DEPLOYMENT_NOT_FOUND = "DeploymentNotFound"
    OTHER_AUTOSCALER = "OtherAutoscaler"
    OTHER_WRITER = "OtherWriter"
    NOT_WRITTEN = "NotWritten"
    INVALID_SCHEDULE = "InvalidSchedule"
    TOO_MANY_SERVICES = "TooManyServices"
    STANDBY = "Standby"
    UNSUPPORTED = "Unsupported"
    TOO_MANY_REPLICAS = "TooManyReplicas"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    WITHIN_BOUNDS = "WithinBounds"


class InferenceClassCondition(StrEnum):
    """Condition types of an InferenceClass."""

    ACCEPTED = "Accepted"


class InferenceClassReason(StrEnum):
    """Reasons of an InferenceClass's conditions."""

    AVAILABLE = "Available"
    MEMORY_OVERSTATED = "MemoryOverstated"


class InferenceClusterCondition(StrEnum):
    """Condition types of an InferenceCluster."""

    CLUSTER_READY = "ClusterReady"
    BACKEND_READY = "BackendReady"
    MUTUAL_TLS = "MutualTLS"
    DRAINED = "Drained"
    CAPACITY_OBSERVED = "CapacityObserved"
    CAPACITY_OVERCOMMITTED = "CapacityOvercommitted"
    CAPACITY_DRIFTED = "CapacityDrifted"
    NODES_KEPT = "NodesKept"
    REACHABLE = "Reachable"


class InferenceClusterReason(StrEnum):
    """Reasons of an InferenceCluster's conditions."""

    CLUSTER_RUNNING = "ClusterRunning"
    KUBECONFIG_NOT_USED = "KubeconfigNotUsed"
    CREDENTIAL_EXPIRING = "CredentialExpiring"
    WAITING_FOR_CLASSES = "WaitingForClasses"
    INVALID_NODE_POOL = "InvalidNodePool"
    PROVISIONING = "Provisioning"
    UNREACHABLE = "Unreachable"
    BACKEND_HEALTHY = "BackendHealthy"
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    INSTALLING = "Installing"
    TLS_REQUIRED = "Required"
    ROLLING_OUT = "RollingOut"
    INVALID_CERTIFICATE = "InvalidCertificate"
    UNSUPPORTED_GATEWAY = "UnsupportedGateway"
    DRAINED = "Drained"
    DRAINING = "Draining"
    DRAIN_BLOCKED = "DrainBlocked"
    DRAIN_UNKNOWN = "DrainUnknown"
    NOT_DRAINING = "NotDraining"
    NO_NOTICES = "NoEvictionNotices"
    NODES_EVICTED = "NodesEvicted"
    NODES_UNKNOWN = "NodesUnknown"
    OBSERVED = "Observed"
    CAPACITY_STALE = "CapacityStale"
    NOT_OBSERVED = "NotObserved"
    WITHIN_CAPACITY = "WithinCapacity"
    OVERCOMMITTED = "Overcommitted"
    AS_DECLARED = "AsDeclared"
    DRIFTED = "Drifted"
    REACHABLE = "Reachable"
    SUSPECT = "Suspect"
    ISOLATED = "Isolated"
    LOST = "Lost"
    RETURNING = "Returning"


class InferenceGatewayCondition(StrEnum):
    """Condition types of an InferenceGateway."""

    CONTROLLER_READY = "ControllerReady"
    SECURED = "Secured"
    AUTHENTICATED = "Authenticated"
    ALIASES_READY = "AliasesReady"
    SETTINGS_SUPPORTED = "SettingsSupported"


class InferenceGatewayReason(StrEnum):
    """Reasons of an InferenceGateway's conditions."""

    CONTROLLER_HEALTHY = "ControllerHealthy"
    INSTALLING = "Installing"
    INSTALLATION_FAILED = "InstallationFailed"
    IGNORED = "Ignored"
    TLS_ONLY = "TLSOnly"
    INVALID_CERTIFICATE_REF = "InvalidCertificateRef"
    UNSUPPORTED_BACKEND = "UnsupportedBackend"
    API_KEY = "APIKey"
    OPEN = "Open"
    MODULE_MISSING = "ModuleMissing"
    NOT_ENFORCED = "NotEnforced"
    CONFIGURING = "Configuring"
    ALIASES_IN_FORCE = "InForce"
    SUPPORTED = "Supported"


class CloudClusterCondition(StrEnum):
    """Condition types of a cluster of a cloud, such as a GKECluster."""

    PROVISIONED = "Provisioned"


class CloudClusterReason(StrEnum):
    """Reasons of the conditions of a cluster of a cloud."""

    RESOURCES_READY = "ResourcesReady"
    CREATING = "Creating"
    PROVIDER_NOT_INSTALLED = "ProviderNotInstalled"
    INVALID_SETTINGS = "InvalidSettings"
    WAITING_FOR_ACCOUNT = "WaitingForAccount"


class ModelCacheCondition(StrEnum):
    """Condition types of a ModelCache."""

    CLUSTERS_MATCHED = "ClustersMatched"
    ARTIFACT_READY = "ArtifactReady"


class ModelCacheReason(StrEnum):
    """Reasons of a ModelCache's conditions."""

    MATCHED = "Matched"
    NO_CLUSTERS = "NoClusters"
    STAGED = "Staged"
    AUTH_SECRET_MISSING = "AuthSecretMissing"  # noqa: S105  a reason, not a secret
    FAILED = "Failed"
    PARTIAL = "Partial"
    HYDRATING = "Hydrating"


class ModelDeploymentCondition(StrEnum):
    """Condition types of a ModelDeployment."""

    REPLICAS_SCHEDULED = "ReplicasScheduled"
    REPLICAS_READY = "ReplicasReady"
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"
    FAILOVER = "Failover"
    PROGRESSING = "Progressing"
    STANDBY_ACTIVE = "StandbyActive"
    PREFERRED_RESOLVED = "PreferredResolved"
    VARIABLES_DEFINED = "VariablesDefined"
    TEMPLATE_ACCEPTED = "TemplateAccepted"


class ModelDeploymentReason(StrEnum):
    """Reasons of a ModelDeployment's conditions."""

    REPLICAS_CREATED = "ReplicasCreated"
    NO_CLUSTERS = "NoClusters"
    INVALID_NODE_SELECTOR = "InvalidNodeSelector"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    POD_ACCEPTED = "PodAccepted"
    POD_NOT_ACCEPTED = "PodNotAccepted"
    QUOTA_EXCEEDED = "QuotaExceeded"
    QUOTA_UNKNOWN = "QuotaUnknown"
    PRIORITY_REFUSED = "PriorityRefused"
    PREEMPTED = "Preempted"
    SCHEDULING = "Scheduling"
    ALL_REPLICAS_READY = "AllReplicasReady"
    NO_REPLICAS_SCHEDULED = "NoReplicasScheduled"
    MODEL_STARTING = "ModelStarting"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    UPDATING = "Updating"
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"
    MODEL_CACHE_UNRESOLVED = "ModelCacheUnresolved"
    MODEL_CACHE_NOT_FOUND = "ModelCacheNotFound"
    WATCHING = "Watching"
    REPLACING = "Replacing"
    FAILOVER_PAUSED = "FailoverPaused"
    FAILOVER_OFF = "Off"
    NOT_SUPPORTED = "NotSupported"
    ROLLOUT_COMPLETE = "RolloutComplete"
    REPLICAS_UPDATING = "ReplicasUpdating"
    ROLLOUT_PAUSED = "RolloutPaused"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    CANARY_RUNNING = "CanaryRunning"
    CANARY_HOLDS = "CanaryHolds"
    CANARY_ABORTED = "CanaryAborted"
    CANARY_UNSUPPORTED = "CanaryUnsupported"
    STABLE_UNPLACED = "StableReplicasUnplaced"
    UNPLACED = "Unplaced"
    SATURATED = "Saturated"
    HAD_REPLICAS = "HadReplicas"
    NOT_NEEDED = "NotNeeded"
    PENDING = "Pending"
    KEPT = "Kept"
    NOT_A_STANDBY = "NotAStandby"
    PREFERRED_RESOLVED = "PreferredResolved"
    PREFERRED_NOT_FOUND = "PreferredNotFound"
    PREFERRED_UNREADABLE = "PreferredUnreadable"
    STANDBY_CYCLE = "StandbyCycle"
    TOO_MANY_PREFERRED = "TooManyPreferred"
    SATURATION_UNKNOWN = "SaturationUnknown"
    DEFINED = "Defined"
    UNDEFINED_VARIABLE = "UndefinedVariable"


class ModelEndpointCondition(StrEnum):
    """Condition types of a ModelEndpoint."""

    ROUTING_READY = "RoutingReady"
    CREDENTIAL_READY = "CredentialReady"


class ModelEndpointReason(StrEnum):
    """Reasons of a ModelEndpoint's conditions."""

    BACKEND_CONFIGURED = "BackendConfigured"
    WAITING_FOR_BACKEND = "WaitingForBackend"
    INVALID_URL = "InvalidURL"
    DESTINATION_REFUSED = "DestinationRefused"
    UNSUPPORTED = "Unsupported"
    IN_FORCE = "InForce"
    SECRET_REFUSED = "SecretRefused"  # noqa: S105  a reason, not a secret
    SECRET_UNREADABLE = "SecretUnreadable"  # noqa: S105  a reason, not a secret


class ModelKeyCondition(StrEnum):
    """Condition types of a ModelKey."""

    GRANTED = "Granted"
    ENFORCED = "Enforced"
    WITHIN_BUDGET = "WithinBudget"
    LIMITED_GLOBALLY = "LimitedGlobally"


class ModelKeyReason(StrEnum):
    """Reasons of a ModelKey's conditions."""

    WITHIN_GRANT = "WithinGrant"
    NO_GRANT = "NoGrant"
    SERVICE_NOT_GRANTED = "ServiceNotGranted"
    REGION_NOT_GRANTED = "RegionNotGranted"
    RATE_LIMIT_SERVICE = "RateLimitService"
    NO_RATE_LIMIT_SERVICE = "NoRateLimitService"
    TYPE_NOT_GRANTED = "TypeNotGranted"
    GATEWAY_OPEN = "GatewayOpen"
    GATEWAY_NOT_READY = "GatewayNotReady"
    CONFIGURING = "Configuring"
    IN_FORCE = "InForce"
    NOT_IN_FORCE = "NotInForce"
    NOT_REPORTED = "NotReported"
    AVAILABLE = "Available"
    SPENT = "Spent"
    NAMESPACE_SPENT = "NamespaceSpent"
    NO_PRICES = "NoPrices"
    NOT_MEASURED = "NotMeasured"


class ModelReplicaCondition(StrEnum):
    """Condition types of a ModelReplica."""

    MODEL_ACCEPTED = "ModelAccepted"
    MODEL_READY = "ModelReady"
    ANNOUNCED = "Announced"
    NODES_KEPT = "NodesKept"
    DEVICES_HEALTHY = "DevicesHealthy"


class ModelReplicaReason(StrEnum):
    """Reasons of a ModelReplica's conditions."""

    ACCEPTED = "Accepted"
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    WAITING_FOR_CACHE = "WaitingForCache"
    DEPLOYING = "Deploying"
    UPDATING = "Updating"
    UNSUPPORTED_TOPOLOGY = "UnsupportedTopology"
    NAMESPACE_NOT_LABELED = "NamespaceNotLabeled"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    POD_NOT_ACCEPTED = "PodNotAccepted"
    SERVING = "Serving"
    WAITING_FOR_MODEL = "WaitingForModel"
    MODEL_STARTING = "ModelStarting"
    ENDPOINT_CREATED = "EndpointCreated"
    NOT_SERVING = "NotServing"
    NO_ADDRESS = "NoAddress"
    DRAINING = "Draining"
    NODES_KEPT = "NodesKept"
    NODE_EVICTED = "NodeEvicted"
    NONE_UNHEALTHY = "NoneUnhealthy"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"


class ModelServiceCondition(StrEnum):
    """Condition types of a ModelService."""

    ENDPOINTS_RESOLVED = "EndpointsResolved"
    ROUTING_READY = "RoutingReady"
    SETTINGS_SUPPORTED = "SettingsSupported"
    WITHIN_BUDGET = "WithinBudget"
    SERVING_VARIANT = "ServingVariant"


class ModelServiceReason(StrEnum):
    """Reasons of a ModelService's conditions."""

    RESOLVED = "Resolved"
    NO_ENDPOINTS = "NoEndpoints"
    ROUTE_CONFIGURED = "RouteConfigured"
    CONFIGURING = "Configuring"
    WAITING_FOR_GATEWAY = "WaitingForGateway"
    TOO_MANY_ENDPOINTS = "TooManyEndpoints"
    PATH_TAKEN = "PathTaken"
    ENDPOINTS_REFUSED = "EndpointsRefused"
    TIERS_WITHOUT_FAILOVER = "TiersWithoutFailover"
    OUTSIDE_REGIONS = "OutsideRegions"
    SUPPORTED = "Supported"
    UNSUPPORTED_BACKEND = "UnsupportedBackend"
    HOLD_UNSUPPORTED = "HoldUnsupported"
    BALANCING_UNSUPPORTED = "BalancingUnsupported"
    AVAILABLE = "Available"
    SPENT = "Spent"
    NO_PRICES = "NoPrices"
    NOT_MEASURED = "NotMeasured"
    PREFERRED_SERVES = "PreferredServes"
    STANDBY_SERVES_TOO = "StandbyServesToo"
    STANDBY_SERVES = "StandbyServes"
    NO_VARIANT_SERVES = "NoVariantServes"
    NO_VARIANTS = "NoVariants"


class ServingStackCondition(StrEnum):
    """Condition types of a ServingStack."""

    INSTALLED = "Installed"


class ServingStackReason(StrEnum):
    """Reasons of a ServingStack's conditions."""

    COMPONENTS_READY = "ComponentsReady"
    DEGRADED = "Degraded"
    INSTALLING = "Installing"
    COMPONENT_FAILED = "ComponentFailed"
    NO_CLUSTER = "NoCluster"
