"""The table of conditions: types, and one row for each reason with its meaning and its remedy.

The reference page, health checks of Argo CD, events and explanations read the rows. Programs compare the
word. It is the kind of cause, such as ``NotFound``, ``Unsupported`` or ``Unreadable``; the message names the
object or the setting. A published word keeps its meaning.
"""

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from modelplane.api.clouds.cloud_rows import CLUSTER_KINDS
from modelplane.api.conditions.row import WARNS, Reason


class CommonCondition(StrEnum):
    """Condition types of every kind."""

    SYNCED = "Synced"
    READY = "Ready"
    ACCEPTED = "Accepted"


class SyncedReason(Reason):
    """Reasons of ``Synced``: the outcome of the last reconcile."""

    RECONCILE_SUCCESS = (
        *(CommonCondition.SYNCED, True, "ReconcileSuccess"),
        "The last reconcile succeeded: all children and the status are written.",
    )
    RECONCILE_ERROR = (
        *(CommonCondition.SYNCED, False, "ReconcileError"),
        "A read or a write failed. It is retried.",
        "Correct what the message names. The next attempt follows by itself.",
        WARNS,
    )
    RECONCILE_PAUSED = (
        *(CommonCondition.SYNCED, False, "ReconcilePaused"),
        "An annotation pauses reconciliation.",
        "Remove the annotation to continue.",
    )


class ReadyReason(Reason):
    """Reasons of ``Ready``, the same for all kinds."""

    AVAILABLE = CommonCondition.READY, True, "Available", "Ready to serve."
    CREATING = (
        *(CommonCondition.READY, False, "Creating"),
        "Being created; not ready for the first time yet.",
        "Wait, or see the conditions that are False.",
    )
    UNAVAILABLE = (
        *(CommonCondition.READY, False, "Unavailable"),
        "The object was ready before and is not ready now.",
        "See the conditions that are False.",
    )
    DELETING = (
        *(CommonCondition.READY, False, "Deleting"),
        "The object is being deleted.",
        "Wait for what the message names.",
    )


class AdmittedReason(Reason):
    """Reasons of ``Accepted`` of an object that is not composed."""

    RESERVED_NAMESPACE = (
        *(CommonCondition.ACCEPTED, False, "ReservedNamespace"),
        "The namespace is reserved: nothing is composed in it. Existing children stay.",
        "Create the object in another namespace.",
        WARNS,
    )


class DeviceQuotaCondition(StrEnum):
    """Condition types of a DeviceQuota."""

    ACCEPTED = "Accepted"
    SETTINGS_SUPPORTED = "SettingsSupported"


class DeviceQuotaReason(Reason):
    """Reasons of a DeviceQuota's conditions."""

    IN_FORCE = (
        *(DeviceQuotaCondition.ACCEPTED, True, "InForce"),
        "New replicas of the namespaces are compared with the quota, and the fleet has the devices.",
    )
    FLEET_TOO_SMALL = (
        *(DeviceQuotaCondition.ACCEPTED, True, "Overcommitted"),
        "The quota is in force, and promises more devices of a class than the fleet has.",
        "Lower nominalQuota, or add nodes.",
    )
    NAMESPACE_CONFLICT = (
        *(DeviceQuotaCondition.ACCEPTED, False, "NamespaceConflict"),
        "Another DeviceQuota names one of the namespaces. No new replica is placed in that namespace.",
        "Remove the namespace from one of the quotas.",
        WARNS,
    )
    RESOLVED = (
        *(DeviceQuotaCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "Every PriorityClass exists. Absent if none was ever named.",
    )
    PRIORITY_CLASS_NOT_FOUND = (
        *(DeviceQuotaCondition.SETTINGS_SUPPORTED, False, "NotFound"),
        "A PriorityClass does not exist. Deployments that name it get no new replicas.",
        "Create the PriorityClass, or correct priorityClassNames.",
        WARNS,
    )
    PRIORITY_CLASS_UNKNOWN = (
        *(DeviceQuotaCondition.SETTINGS_SUPPORTED, False, "Unreadable"),
        "A PriorityClass cannot be read. Its last value applies.",
        "Let the controllers read PriorityClasses: the message has the cause.",
        WARNS,
    )


class InferenceAutoscalerCondition(StrEnum):
    """Condition types of an InferenceAutoscaler."""

    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"


class InferenceAutoscalerReason(Reason):
    """Reasons of an InferenceAutoscaler's conditions."""

    MEASURED = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, True, "InForce"),
        "The gateway's counts decide the number of replicas.",
    )
    PAUSED = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "Paused"),
        "spec.paused is true. The number of replicas does not change.",
        "Remove spec.paused to continue.",
    )
    NO_METRICS = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "NoMetrics"),
        "The gateway's counts cannot be read. The number of replicas does not change.",
        "Check the gateway: `kubectl get ig default`.",
        WARNS,
    )
    DEPLOYMENT_NOT_FOUND = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "NotFound"),
        "The ModelDeployment does not exist.",
        "Create the ModelDeployment, or correct spec.deploymentRef.",
        WARNS,
    )
    OTHER_WRITER = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "OtherWriter"),
        "An older InferenceAutoscaler, or something else, keeps changing spec.replicas.",
        "Find and stop what else writes spec.replicas.",
        WARNS,
    )
    NOT_WRITTEN = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "ReconcileError"),
        "The number of replicas could not be written. It is retried.",
        "Correct what the message names.",
        WARNS,
    )
    INVALID_SCHEDULE = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "InvalidSettings"),
        "A schedule has no time, or a time zone that does not exist. The number of replicas does not change.",
        "Correct the schedule that the message names.",
        WARNS,
    )
    TOO_MANY_SERVICES = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "LimitExceeded"),
        (
            "More than 128 selectors of ModelServices may select the deployment. The number of replicas does "
            "not change."
        ),
        "Remove selectors, or make them more exact.",
        WARNS,
    )
    STANDBY = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "NotNeeded"),
        "The ModelDeployment is a standby that runs no replicas now.",
        "None: scaling begins when the standby is needed.",
    )
    UNSUPPORTED = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "Unsupported"),
        "Under Crossplane, nothing scales by InferenceAutoscalers.",
        "Use KEDA or a HorizontalPodAutoscaler.",
        WARNS,
    )
    TOO_MANY_REPLICAS = (
        *(InferenceAutoscalerCondition.SCALING_LIMITED, True, "TooManyReplicas"),
        "In the last minute the load needed more replicas than spec.maxReplicas.",
        "Raise spec.maxReplicas.",
    )
    INSUFFICIENT_CAPACITY = (
        *(InferenceAutoscalerCondition.SCALING_LIMITED, True, "InsufficientCapacity"),
        "The fleet has no place for all replicas.",
        "Run `modelplane explain md/NAME`, and add the capacity that it names.",
    )
    WITHIN_BOUNDS = (
        *(InferenceAutoscalerCondition.SCALING_LIMITED, False, "InForce"),
        "spec.maxReplicas allows what the load needs, and all replicas have a place.",
    )


class InferenceClassCondition(StrEnum):
    """Condition types of an InferenceClass."""

    ACCEPTED = "Accepted"


class InferenceClassReason(Reason):
    """Reasons of an InferenceClass's conditions."""

    AVAILABLE = InferenceClassCondition.ACCEPTED, True, "Available", "Node pools may use the class."
    MEMORY_OVERSTATED = (
        *(InferenceClassCondition.ACCEPTED, True, "MemoryOverstated"),
        "Node pools may use the class. A device declares more memory than its card: pods may stay Pending.",
        "Lower the memory of the device to what the message names.",
    )


class InferenceClusterCondition(StrEnum):
    """Condition types of an InferenceCluster."""

    CLUSTER_READY = "ClusterReady"
    BACKEND_READY = "BackendReady"
    SECURED = "Secured"
    DRAINED = "Drained"
    CAPACITY_OBSERVED = "CapacityObserved"
    CAPACITY_OVERCOMMITTED = "CapacityOvercommitted"
    NODES_KEPT = "NodesKept"
    REACHABLE = "Reachable"


class InferenceClusterReason(Reason):
    """Reasons of an InferenceCluster's conditions."""

    CLUSTER_RUNNING = (
        *(InferenceClusterCondition.CLUSTER_READY, True, "ClusterRunning"),
        "The cluster's API server answers.",
    )
    CREDENTIAL_EXPIRING = (
        *(InferenceClusterCondition.CLUSTER_READY, True, "CredentialExpiring"),
        (
            "The cluster's API server answers. Less than a quarter of the life of a credential is left, or "
            "the Secret no longer has a kubeconfig that is accepted."
        ),
        "Renew the credential, or write a kubeconfig that is accepted to the Secret.",
    )
    WAITING_FOR_CLASSES = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "WaitingForClasses"),
        "A node pool names an InferenceClass that does not exist.",
        "Create the InferenceClass, or correct the node pool.",
    )
    INVALID_NODE_POOL = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "InvalidNodePool"),
        "A pool does not fit the source: its class has no recipe for it, or the source lacks its fabric.",
        "Correct the pool or its class.",
        WARNS,
    )
    PROVISIONING = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "Provisioning"),
        "The cloud has not created the cluster yet.",
        "Wait, or correct what the message names.",
    )
    UNREACHABLE = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "Unreachable"),
        "The cluster's API server does not answer, or rejects the credentials.",
        "Check the cluster, its network, and the kubeconfig of its Secret.",
        WARNS,
    )
    BACKEND_HEALTHY = (
        *(InferenceClusterCondition.BACKEND_READY, True, "BackendHealthy"),
        "Every component that serving needs is installed.",
    )
    WAITING_FOR_CLUSTER = (
        *(InferenceClusterCondition.BACKEND_READY, False, "WaitingForCluster"),
        "The cluster is not ready.",
        "See ClusterReady.",
    )
    INSTALLING = (
        *(InferenceClusterCondition.BACKEND_READY, False, "Installing"),
        "A component that serving needs is not installed yet.",
        "Wait, or install the component that the message names.",
    )
    TLS_REQUIRED = (
        *(InferenceClusterCondition.SECURED, True, "InForce"),
        "The cluster's gateway accepts only requests of the fleet's gateway (mutual TLS).",
    )
    ROLLING_OUT = (
        *(InferenceClusterCondition.SECURED, False, "Updating"),
        "Mutual TLS is being turned on or off. The message has the next step and what it waits for.",
        "Wait for what the message names.",
    )
    INVALID_CERTIFICATE = (
        *(InferenceClusterCondition.SECURED, False, "InvalidCertificate"),
        "A certificate cannot be issued or renewed. What is in force stays.",
        "Correct what the message names: the issuer, or its permissions.",
        WARNS,
    )
    UNSUPPORTED_GATEWAY = (
        *(InferenceClusterCondition.SECURED, False, "Unsupported"),
        "Modelplane cannot set up mutual TLS on this cluster's gateway. What is in force stays.",
        "Use a gateway that the message names, or remove the setting.",
        WARNS,
    )
    DRAINED = (
        *(InferenceClusterCondition.DRAINED, True, "Drained"),
        "A drain has ended: no replica is left on the cluster, or in the pools.",
    )
    DRAINING = (
        *(InferenceClusterCondition.DRAINED, False, "Draining"),
        "Replicas are being replaced elsewhere, or wait for their turn.",
        "Wait.",
    )
    DRAIN_BLOCKED = (
        *(InferenceClusterCondition.DRAINED, False, "DrainBlocked"),
        "A replica that is left has no other place. The message has the deployment and the reason.",
        "Add capacity elsewhere, or scale the deployment down.",
    )
    DRAIN_UNKNOWN = (
        *(InferenceClusterCondition.DRAINED, False, "Unreadable"),
        "The replicas or deployments of the fleet cannot be read.",
        "Correct the object or the permission that the message names.",
    )
    NOT_DRAINING = (
        *(InferenceClusterCondition.DRAINED, False, "NotRequested"),
        "A drain was ended.",
        "None: drain the cluster again if you want to.",
    )
    OBSERVED = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, True, "InForce"),
        (
            "Placement uses the observed capacity. The message has what is declared and usable of each pool, "
            "and why."
        ),
    )
    DRIFTED = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, True, "Drifted"),
        "Placement uses the observed capacity, and devices differ from what their InferenceClass declares.",
        "Correct the InferenceClass, or the nodes.",
    )
    CAPACITY_STALE = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, False, "Unreadable"),
        "Nodes or devices cannot be counted. The last known capacity is used, or else the declared one.",
        "Let the controllers read what the message names.",
        WARNS,
    )
    NOT_OBSERVED = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, False, "NotObserved"),
        "Nothing observes the cluster, as under Crossplane. The declared capacity is used.",
        "Set capacitySource to Declared.",
    )
    OVERCOMMITTED = (
        *(InferenceClusterCondition.CAPACITY_OVERCOMMITTED, True, "Overcommitted"),
        "Replicas hold more than is usable. They stay, and pods that restart may stay Pending.",
        "Repair or add nodes, or scale deployments down.",
    )
    WITHIN_CAPACITY = (
        *(InferenceClusterCondition.CAPACITY_OVERCOMMITTED, False, "Healthy"),
        "Replicas hold no more than is usable.",
    )
    CAPACITY_UNKNOWN = (
        *(InferenceClusterCondition.CAPACITY_OVERCOMMITTED, False, "Unreadable"),
        "A replica cannot be read.",
        "Correct the replica that the message names.",
    )
    NO_NOTICES = (
        *(InferenceClusterCondition.NODES_KEPT, True, "Healthy"),
        "No node has a notice of eviction. Absent without spot pools.",
    )
    NODES_EVICTED = (
        *(InferenceClusterCondition.NODES_KEPT, False, "NodeEvicted"),
        "Nodes are taken back. Replicas on them are replaced, and spot pools get none for 15 minutes.",
        "None: replicas are replaced if there is capacity.",
    )
    NODES_UNKNOWN = (
        *(InferenceClusterCondition.NODES_KEPT, False, "Unreadable"),
        "Nodes cannot be listed, so new notices of eviction are missed. The last notices apply.",
        "Let the controllers list the nodes of the cluster.",
        WARNS,
    )
    NODES_NOT_OBSERVED = (
        *(InferenceClusterCondition.NODES_KEPT, False, "NotObserved"),
        "Nothing watches nodes, as under Crossplane.",
        "Let Modelplane's controllers reconcile, or do without spot pools.",
    )
    REACHABLE = (
        *(InferenceClusterCondition.REACHABLE, True, "Reachable"),
        "No sign of a failure. Absent while no ModelDeployment has failover.",
    )
    SUSPECT = (
        *(InferenceClusterCondition.REACHABLE, False, "Suspect"),
        "The API server or the replicas do not answer. Deployments with failover place no replica there.",
        "Check the cluster and its network.",
    )
    ISOLATED = (
        *(InferenceClusterCondition.REACHABLE, False, "Isolated"),
        "The API server does not answer, and the replicas do: they stay.",
        "Check the network between the control plane and the cluster.",
    )
    LOST = (
        *(InferenceClusterCondition.REACHABLE, False, "Lost"),
        (
            "Neither the API server nor the replicas answer. Deployments with failover replace their "
            "replicas there."
        ),
        "Repair the cluster, or delete its InferenceCluster to give it up.",
        WARNS,
    )
    RETURNING = (
        *(InferenceClusterCondition.REACHABLE, False, "Returning"),
        "The cluster was lost and answers again, but not for long enough yet.",
        "Wait.",
    )


class InferenceGatewayCondition(StrEnum):
    """Condition types of an InferenceGateway."""

    CONTROLLER_READY = "ControllerReady"
    SECURED = "Secured"
    AUTHENTICATED = "Authenticated"
    SETTINGS_SUPPORTED = "SettingsSupported"


class InferenceGatewayReason(Reason):
    """Reasons of an InferenceGateway's conditions."""

    CONTROLLER_HEALTHY = (
        *(InferenceGatewayCondition.CONTROLLER_READY, True, "ControllerHealthy"),
        "The gateway accepts requests.",
    )
    INSTALLING = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "Installing"),
        "The gateway is not ready yet.",
        "Wait for what the message names.",
    )
    INSTALLATION_FAILED = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "InstallationFailed"),
        "A chart of the gateway cannot be installed. The message has its error.",
        "Correct the setting that the message names.",
        WARNS,
    )
    IGNORED = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "InvalidSettings"),
        "Only the InferenceGateway named default is used, and this one has another name.",
        "Rename the InferenceGateway.",
        WARNS,
    )
    NOT_PUBLISHED = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "Unsupported"),
        "Keys are required and the backend does not read ModelKeys. No service is published there.",
        "Use backend Envoy, or set spec.authentication to None.",
        WARNS,
    )
    TLS_ONLY = (
        *(InferenceGatewayCondition.SECURED, True, "InForce"),
        "Clients use TLS, and plain HTTP is refused.",
    )
    TLS_INSTALLING = (
        *(InferenceGatewayCondition.SECURED, False, "Installing"),
        "The gateway is not ready yet.",
        "Wait for what the message names.",
    )
    INVALID_CERTIFICATE_REF = (
        *(InferenceGatewayCondition.SECURED, False, "InvalidCertificate"),
        "A certificate is missing, damaged or expired. Without a former one, no request is served.",
        "Correct the Secret that spec.tls names.",
        WARNS,
    )
    TLS_UNSUPPORTED = (
        *(InferenceGatewayCondition.SECURED, False, "Unsupported"),
        "Another gateway than Envoy takes requests: spec.tls is ignored.",
        "Use backend Envoy, or configure TLS at the other gateway and remove spec.tls.",
        WARNS,
    )
    API_KEY = (
        *(InferenceGatewayCondition.AUTHENTICATED, True, "InForce"),
        "A request needs the key of a ModelKey.",
    )
    OPEN = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "Open"),
        "The gateway serves every request. spec.authentication is absent or None.",
        "Set spec.authentication to APIKey if clients are to have keys.",
    )
    MODULE_MISSING = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "ModuleMissing"),
        "Keys are required and Envoy runs without the gateway module, so it serves no request.",
        "Install the gateway module, as the message describes.",
        WARNS,
    )
    NOT_ENFORCED = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "Unsupported"),
        (
            "Keys are required and the backend does not read ModelKeys: it serves every request, or none if "
            "it never served one."
        ),
        "Use backend Envoy, or restrict access to the Gateway by other means.",
        WARNS,
    )
    CONFIGURING = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "Configuring"),
        "Keys are required, and the gateway does not ask for them yet.",
        "Wait.",
    )
    SUPPORTED = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "The backend has every setting. Absent unless spec.aliases is set or a setting was ignored before.",
    )
    UNSUPPORTED_BACKEND = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, False, "Unsupported"),
        "The backend ignores settings, which the message names.",
        "Remove the settings, or use the backend that has them.",
        WARNS,
    )
    ALIASES_WITHOUT_MODULE = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, False, "ModuleMissing"),
        "Envoy runs without the gateway module, so it ignores spec.aliases.",
        "Install the gateway module, as the message describes.",
        WARNS,
    )
    ALIASES_OPEN = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, False, "Open"),
        "The gateway asks for no key, so it ignores aliases whose namespaces do not include *.",
        "Add * to their namespaces, or set spec.authentication to APIKey.",
        WARNS,
    )


class CloudClusterCondition(StrEnum):
    """Condition types of a cluster of a cloud, such as a GKECluster."""

    CLUSTER_READY = "ClusterReady"


class CloudClusterReason(Reason):
    """Reasons of the conditions of a cluster of a cloud."""

    RESOURCES_READY = (
        *(CloudClusterCondition.CLUSTER_READY, True, "ClusterRunning"),
        "Every managed resource of the cluster is ready.",
    )
    CREATING = (
        *(CloudClusterCondition.CLUSTER_READY, False, "Provisioning"),
        "The cloud has not created every resource yet, or refuses one.",
        "Wait, or correct what the cloud's error in the message names.",
    )
    PROVIDER_NOT_INSTALLED = (
        *(CloudClusterCondition.CLUSTER_READY, False, "ProviderNotInstalled"),
        "A kind of managed resources is not installed: the message names its package.",
        "Install the package of the provider.",
        WARNS,
    )
    INVALID_SETTINGS = (
        *(CloudClusterCondition.CLUSTER_READY, False, "InvalidSettings"),
        "The settings contradict each other or the cloud. Nothing changes until they are corrected.",
        "Correct the settings that the message names.",
        WARNS,
    )
    WAITING_FOR_ACCOUNT = (
        *(CloudClusterCondition.CLUSTER_READY, False, "NotFound"),
        "The provider configuration, of which a value is needed, does not exist or cannot be read.",
        "Create the provider configuration, or correct its name.",
        WARNS,
    )


class ModelCacheCondition(StrEnum):
    """Condition types of a ModelCache."""

    CLUSTERS_MATCHED = "ClustersMatched"
    ARTIFACT_READY = "ArtifactReady"


class ModelCacheReason(Reason):
    """Reasons of a ModelCache's conditions."""

    MATCHED = (
        *(ModelCacheCondition.CLUSTERS_MATCHED, True, "Matched"),
        "At least one cluster is selected and has storage for caches.",
    )
    NO_MATCH = (
        *(ModelCacheCondition.CLUSTERS_MATCHED, False, "NoClusters"),
        "No cluster is selected and has storage for caches.",
        "Correct the selector, or give a cluster storage for caches.",
    )
    STAGED = ModelCacheCondition.ARTIFACT_READY, True, "Staged", "Every matched cluster has the weights."
    NO_CLUSTERS = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "NoClusters"),
        "There is no cluster to stage the weights on.",
        "See ClustersMatched.",
    )
    AUTH_SECRET_MISSING = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "AuthSecretMissing"),
        "The token's Secret, or its key, does not exist or is empty.",
        "Create the Secret with the key that the message names.",
        WARNS,
    )
    FAILED = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "Failed"),
        "Staging failed on at least one cluster.",
        "Correct what the message names. Staging is tried again by itself.",
        WARNS,
    )
    PARTIAL = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "Partial"),
        "Some clusters have the weights.",
        "Wait.",
    )
    HYDRATING = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "Hydrating"),
        "No cluster has the weights yet.",
        "Wait.",
    )


class ModelDeploymentCondition(StrEnum):
    """Condition types of a ModelDeployment."""

    REPLICAS_SCHEDULED = "ReplicasScheduled"
    REPLICAS_READY = "ReplicasReady"
    MODEL_CACHE_RESOLVED = "ModelCacheResolved"
    FAILOVER = "Failover"
    PROGRESSING = "Progressing"
    STANDBY_ACTIVE = "StandbyActive"
    SETTINGS_SUPPORTED = "SettingsSupported"


class ModelDeploymentReason(Reason):
    """Reasons of a ModelDeployment's conditions."""

    REPLICAS_CREATED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, True, "ReplicasCreated"),
        "Every desired replica has a cluster.",
    )
    NO_CLUSTERS = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "NoClusters"),
        "The fleet has no InferenceCluster.",
        "Register a cluster: `modelplane cluster register`.",
        WARNS,
    )
    INVALID_NODE_SELECTOR = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "InvalidNodeSelector"),
        "A device selector is not valid CEL. Existing replicas stay as they are.",
        "Correct the selector that the message names.",
        WARNS,
    )
    INSUFFICIENT_CAPACITY = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "InsufficientCapacity"),
        "Fewer replicas than desired have a cluster. The message has both counts and the cause.",
        "Run `modelplane explain md/NAME`, which names the smallest change that helps.",
        WARNS,
    )
    POD_NOT_ACCEPTED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "PodNotAccepted"),
        "No cluster accepts the labels, annotations and variables of the pods. The message lists all.",
        "Remove them from the template, or ask your platform team to accept them in spec.podKeys.accept.",
        WARNS,
    )
    QUOTA_EXCEEDED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "QuotaExceeded"),
        (
            "Fewer replicas than desired have a cluster, and a cluster has room for one more that the "
            "DeviceQuota of the namespace refuses."
        ),
        "Scale another deployment of the namespace down, or ask your platform team for more quota.",
        WARNS,
    )
    QUOTA_UNKNOWN = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "Unreadable"),
        "The DeviceQuota of the namespace is not certain, so no new replica is placed.",
        "Correct the DeviceQuota that the message names.",
        WARNS,
    )
    PRIORITY_REFUSED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "NotGranted"),
        "The DeviceQuota of the namespace does not allow the PriorityClass, or it does not exist.",
        "Use a PriorityClass that the DeviceQuota allows, or ask your platform team to allow this one.",
        WARNS,
    )
    PREEMPTED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "Preempted"),
        "Replicas are withdrawn, because a deployment of higher priority takes their devices.",
        "Add capacity, or raise the priority.",
        WARNS,
    )
    STABLE_UNPLACED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "NotFound"),
        "The template of the replicas beside a canary, or its ModelCache, is not there for a new one.",
        "Create the ModelCache again, or end the canary.",
        WARNS,
    )
    SCHEDULING = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "Scheduling"),
        "Replicas have a cluster and are being created.",
        "Wait.",
    )
    ALL_REPLICAS_READY = (
        *(ModelDeploymentCondition.REPLICAS_READY, True, "AllReplicasReady"),
        "Every desired replica serves.",
    )
    NO_REPLICAS_SCHEDULED = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "NoReplicasScheduled"),
        "No replica has a cluster.",
        "See ReplicasScheduled.",
    )
    MODEL_STARTING = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "ModelStarting"),
        "At least one replica does not serve yet.",
        "Wait, or see the conditions of the replica that the message names.",
    )
    CRASH_LOOP = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "CrashLoopBackOff"),
        "An engine of a replica ends with an error each time. The message has the replica and the error.",
        "Correct the command or the image. The log: `modelplane logs md/NAME --previous`.",
        WARNS,
    )
    IMAGE_PULL = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "ImagePullBackOff"),
        "The image of a replica cannot be pulled. The message has the replica and the error.",
        "Correct the name of the image, or the pull Secret.",
        WARNS,
    )
    CLUSTER_UNREACHABLE = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "ClusterUnreachable"),
        "A replica's cluster does not answer, so the state of its replicas is unknown.",
        "Check the cluster. spec.failover replaces replicas on lost clusters.",
        WARNS,
    )
    UPDATING = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "Updating"),
        "Replicas serve, and some do not have the current template yet.",
        "Wait.",
    )
    MODEL_CACHE_RESOLVED = (
        *(ModelDeploymentCondition.MODEL_CACHE_RESOLVED, True, "ModelCacheResolved"),
        "The named ModelCache exists.",
    )
    MODEL_CACHE_UNRESOLVED = (
        *(ModelDeploymentCondition.MODEL_CACHE_RESOLVED, False, "ModelCacheUnresolved"),
        "The ModelCache has not been looked up yet.",
        "Wait.",
    )
    MODEL_CACHE_NOT_FOUND = (
        *(ModelDeploymentCondition.MODEL_CACHE_RESOLVED, False, "ModelCacheNotFound"),
        "The namespace has no ModelCache of that name.",
        "Create the ModelCache, or correct the name.",
        WARNS,
    )
    WATCHING = (
        *(ModelDeploymentCondition.FAILOVER, True, "InForce"),
        "Replicas are replaced if their cluster is lost.",
    )
    REPLACING = (
        *(ModelDeploymentCondition.FAILOVER, True, "Replacing"),
        "Replicas on a lost cluster are being replaced, or have been.",
    )
    FAILOVER_OFF = (
        *(ModelDeploymentCondition.FAILOVER, True, "NotRequested"),
        "The deployment does not ask for failover any more.",
    )
    FAILOVER_PAUSED = (
        *(ModelDeploymentCondition.FAILOVER, False, "FailoverPaused"),
        "Clusters are lost, and nothing is replaced: the fault may be the control plane's own.",
        "Check the network of the control plane. Failover continues by itself.",
        WARNS,
    )
    NOT_SUPPORTED = (
        *(ModelDeploymentCondition.FAILOVER, False, "Unsupported"),
        "Crossplane reconciles, and watches no clusters: nothing is replaced.",
        "Let Modelplane's controllers reconcile, or remove spec.failover.",
        WARNS,
    )
    ROLLOUT_COMPLETE = (
        *(ModelDeploymentCondition.PROGRESSING, True, "RolloutComplete"),
        "Every replica has got the current template and served.",
    )
    REPLICAS_UPDATING = (
        *(ModelDeploymentCondition.PROGRESSING, True, "Updating"),
        "Replicas get the current template. The message has the counts and what the rollout waits for.",
    )
    ROLLOUT_PAUSED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "Paused"),
        "`spec.rollout.paused` is true.",
        "Continue with `modelplane rollout resume md/NAME`.",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "ProgressDeadlineExceeded"),
        "No progress for `progressDeadlineSeconds`. The message has the replica, its cluster and why.",
        "Correct the template, or return to the one before with `modelplane rollout undo md/NAME`.",
        WARNS,
    )
    CANARY_RUNNING = (
        *(ModelDeploymentCondition.PROGRESSING, True, "CanaryRunning"),
        "The new revision gets a part of the requests. The message has the step and the answers so far.",
    )
    CANARY_HOLDS = (
        *(ModelDeploymentCondition.PROGRESSING, False, "CanaryHolds"),
        "A canary waits for answers, a gateway or a replica, or because both revisions fail.",
        "Wait for what the message names, or return with `modelplane rollout undo md/NAME`.",
    )
    CANARY_ABORTED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "CanaryAborted"),
        "The new revision exceeded a limit of its canary. It gets no requests; no replica is updated.",
        "Correct the template, or return to the one before with `modelplane rollout undo md/NAME`.",
        WARNS,
    )
    CANARY_UNSUPPORTED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "Unsupported"),
        "No replica is updated: nothing counts the canary's answers, or there is one replica and no surge.",
        "Remove spec.rollout.canary, allow a surge, or use the gateway that the message names.",
        WARNS,
    )
    STABLE_NOT_FOUND = (
        *(ModelDeploymentCondition.PROGRESSING, False, "NotFound"),
        "No new replica gets the template of those beside a canary: it, or its ModelCache, is not there.",
        "Create the ModelCache again, or end the canary.",
        WARNS,
    )
    UNPLACED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "Unplaced"),
        "The replicas run, because the preferred deployment lacks capacity.",
    )
    SATURATED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "Saturated"),
        "The replicas run, because the preferred deployment is saturated.",
    )
    HAD_REPLICAS = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "HadReplicas"),
        "The replicas run, because they were there when the deployment became a standby.",
    )
    NOT_A_STANDBY = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "NotRequested"),
        "`spec.standbyFor` is absent. Only under Crossplane.",
    )
    NOT_NEEDED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, False, "NotNeeded"),
        "No replicas run, because the preferred deployment has capacity.",
        "None: replicas run when they are needed.",
    )
    PENDING = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, False, "Pending"),
        "No replicas run yet. The message has since when they are needed.",
        "Wait.",
    )
    PREFERRED_NOT_FOUND = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "NotFound"),
        (
            "The namespace has no ModelDeployment of the name in spec.standbyFor, or it is being deleted. "
            "Replicas run, or do not, as before."
        ),
        "Create the ModelDeployment, or correct spec.standbyFor.",
        WARNS,
    )
    PREFERRED_UNREADABLE = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "Unreadable"),
        "The ModelDeployment in spec.standbyFor cannot be read. Replicas run, or do not, as before.",
        "Correct the object or the permission that the message names.",
        WARNS,
    )
    STANDBY_CYCLE = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "InvalidSettings"),
        "Deployments stand by for one another. Replicas run, or do not, as before.",
        "Correct spec.standbyFor of one of them.",
        WARNS,
    )
    TOO_MANY_PREFERRED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "LimitExceeded"),
        "More than 8 deployments are before this one in the order. Replicas run, or do not, as before.",
        "Shorten the order.",
        WARNS,
    )
    POD_ACCEPTED = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "Every setting has its effect. Absent unless one had none before.",
    )
    POD_REFUSED = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, False, "PodNotAccepted"),
        "A cluster of a replica refuses labels, annotations or variables of the pods. What runs stays.",
        "Remove them from the template, or ask your platform team to accept them in spec.podKeys.accept.",
        WARNS,
    )
    UNDEFINED_VARIABLE = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, False, "InvalidSettings"),
        "A container receives the characters `$(NAME)`, because nothing sets the variable.",
        "Set the variable in env, or write $$(NAME) for the characters.",
        WARNS,
    )
    SATURATION_UNKNOWN = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, False, "NoMetrics"),
        "The deployment in spec.standbyFor never counts as Saturated. Other triggers work.",
        "Create an InferenceAutoscaler for it, or remove Saturated from spec.standbyFor.when.",
        WARNS,
    )


class ModelEndpointCondition(StrEnum):
    """Condition types of a ModelEndpoint."""

    ROUTING_READY = "RoutingReady"
    AUTHENTICATED = "Authenticated"


class ModelEndpointReason(Reason):
    """Reasons of a ModelEndpoint's conditions."""

    BACKEND_CONFIGURED = (
        *(ModelEndpointCondition.ROUTING_READY, True, "BackendConfigured"),
        "The gateway can route to the endpoint.",
    )
    WAITING_FOR_BACKEND = (
        *(ModelEndpointCondition.ROUTING_READY, False, "WaitingForBackend"),
        "The replica does not serve yet, the backend is being created, or the gateway is not known yet.",
        "Wait for what the message names.",
    )
    INVALID_URL = (
        *(ModelEndpointCondition.ROUTING_READY, False, "InvalidURL"),
        "The URL has no host, or a port that is not a number.",
        "Correct spec.url.",
        WARNS,
    )
    DESTINATION_REFUSED = (
        *(ModelEndpointCondition.ROUTING_READY, False, "DestinationRefused"),
        "The URL leads to a gateway, a metadata service, an internal or a denied address.",
        (
            "Use another address, or ask your platform team to list it in spec.allowedDestinations of the "
            "InferenceGateway."
        ),
        WARNS,
    )
    UNSUPPORTED = (
        *(ModelEndpointCondition.ROUTING_READY, False, "Unsupported"),
        (
            "The endpoint has a model, a credential or mutual TLS that the gateway cannot set. It gets no "
            "requests."
        ),
        "Use the backend that the message names, or remove the setting.",
        WARNS,
    )
    IN_FORCE = (
        *(ModelEndpointCondition.AUTHENTICATED, True, "InForce"),
        "The gateway sends the credential of the Secret that the endpoint names.",
    )
    SECRET_REFUSED = (
        *(ModelEndpointCondition.AUTHENTICATED, False, "SecretRefused"),
        "The Secret is missing, or does not permit this use. The endpoint gets no requests.",
        "Create the Secret, or permit the use as the message describes.",
        WARNS,
    )
    SECRET_UNREADABLE = (
        *(ModelEndpointCondition.AUTHENTICATED, False, "Unreadable"),
        "The Secret cannot be read. The credential that it gave before stays in force.",
        "Let the controllers read the Secret.",
        WARNS,
    )


class ModelKeyCondition(StrEnum):
    """Condition types of a ModelKey."""

    ACCEPTED = "Accepted"
    AUTHENTICATED = "Authenticated"
    WITHIN_BUDGET = "WithinBudget"
    SETTINGS_SUPPORTED = "SettingsSupported"


class ModelKeyReason(Reason):
    """Reasons of a ModelKey's conditions."""

    WITHIN_GRANT = (
        *(ModelKeyCondition.ACCEPTED, True, "InForce"),
        "The InferenceGateway grants the namespace all that the key names.",
    )
    NOT_GRANTED = (
        *(ModelKeyCondition.ACCEPTED, False, "NotGranted"),
        (
            "The InferenceGateway grants nothing to the namespace, or the grant lacks a service or a region "
            "that the key names. The others apply."
        ),
        "Remove what is not granted, or ask your platform team to add it to spec.keyGrants.",
        WARNS,
    )
    IN_FORCE = (
        *(ModelKeyCondition.AUTHENTICATED, True, "InForce"),
        "The gateway asks for a key, and this one is valid.",
    )
    GATEWAY_OPEN = (
        *(ModelKeyCondition.AUTHENTICATED, False, "Open"),
        "The gateway asks for no key: requests without one are served too.",
        "Set spec.authentication of the InferenceGateway to APIKey if clients are to have keys.",
    )
    GATEWAY_NOT_READY = (
        *(ModelKeyCondition.AUTHENTICATED, False, "WaitingForGateway"),
        "The gateway is to ask for keys and does not. Its own condition has the cause.",
        "See the condition Authenticated of the InferenceGateway.",
    )
    CONFIGURING = (
        *(ModelKeyCondition.AUTHENTICATED, False, "Configuring"),
        "The gateway does not have the key, or its last edit, yet.",
        "Wait.",
    )
    NOT_IN_FORCE = (
        *(ModelKeyCondition.AUTHENTICATED, False, "NotInForce"),
        "The gateway refuses the key, one of its hashes, or its last edit. The message has the cause.",
        "Correct what the message names.",
        WARNS,
    )
    NOT_REPORTED = (
        *(ModelKeyCondition.AUTHENTICATED, False, "NotObserved"),
        "The gateway asks for keys. Under Crossplane, nothing reports whether it has this one.",
        "None: send a request with the key to see.",
    )
    RATE_LIMIT_SERVICE = (
        *(ModelKeyCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "The rate limit service counts. Only for keys with Global limits.",
    )
    NO_RATE_LIMIT_SERVICE = (
        *(ModelKeyCondition.SETTINGS_SUPPORTED, False, "Unsupported"),
        "The InferenceGateway names no rate limit service. Each gateway enforces its part of the limits.",
        "Ask your platform team to add spec.rateLimitService.",
        WARNS,
    )
    TYPE_NOT_GRANTED = (
        *(ModelKeyCondition.SETTINGS_SUPPORTED, False, "NotGranted"),
        "The grant allows no Global limits. Each gateway enforces its part of the limits.",
        "Remove spec.rateLimitType, or ask your platform team.",
        WARNS,
    )
    AVAILABLE = (
        *(ModelKeyCondition.WITHIN_BUDGET, True, "Available"),
        "No budget of the key or its namespace is spent. Only with a budget.",
    )
    SPENT = (
        *(ModelKeyCondition.WITHIN_BUDGET, False, "Spent"),
        (
            "The budget of the key, or of all keys of the namespace, is spent. The message names the budget "
            "and the time at which it opens again."
        ),
        "Wait, or raise the budget.",
    )
    NO_PRICES = (
        *(ModelKeyCondition.WITHIN_BUDGET, False, "NoPrices"),
        "The InferenceGateway has no prices, so budgets in money have no effect.",
        "Ask your platform team to set spec.pricing.",
        WARNS,
    )
    NOT_MEASURED = (
        *(ModelKeyCondition.WITHIN_BUDGET, False, "NoMetrics"),
        "The usage of keys is not known. What was refused stays refused.",
        "Check the gateway: `kubectl get ig default`.",
    )


class ModelReplicaCondition(StrEnum):
    """Condition types of a ModelReplica."""

    MODEL_ACCEPTED = "ModelAccepted"
    MODEL_READY = "ModelReady"
    ROUTING_READY = "RoutingReady"
    NODES_KEPT = "NodesKept"
    DEVICES_HEALTHY = "DevicesHealthy"


class ModelReplicaReason(Reason):
    """Reasons of a ModelReplica's conditions."""

    ACCEPTED = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, True, "Accepted"),
        "The cluster has the workload of every engine.",
    )
    WAITING_FOR_CLUSTER = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "WaitingForCluster"),
        "The cluster does not exist, or its status lacks values that the replica needs.",
        "See the conditions of the InferenceCluster.",
    )
    CLUSTER_UNREACHABLE = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "ClusterUnreachable"),
        "The cluster's API server does not answer. Its workloads keep running.",
        "Check the cluster, its network, and the kubeconfig of its Secret.",
        WARNS,
    )
    WAITING_FOR_CACHE = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "WaitingForCache"),
        "The ModelCache has not staged the weights on the cluster yet.",
        "Wait, or see the conditions of the ModelCache.",
    )
    DEPLOYING = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "Deploying"),
        "At least one workload is not on the cluster yet.",
        "Wait.",
    )
    UPDATING = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, True, "Updating"),
        "The replica serves, and not every copy of its engines has its last edit.",
    )
    UNSUPPORTED_TOPOLOGY = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "Unsupported"),
        "The cluster cannot run an engine of this topology.",
        "Install what the message names on the cluster, or select other clusters.",
        WARNS,
    )
    NAMESPACE_NOT_LABELED = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "NamespaceNotLabeled"),
        "The namespace on the cluster is not Modelplane's: nothing is written. Existing objects stay.",
        "Label the namespace on the cluster as the message describes, or use another namespace.",
        WARNS,
    )
    NAMESPACE_TERMINATING = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "NamespaceTerminating"),
        "The namespace on the cluster is being deleted: nothing is written until it is gone.",
        "Find what keeps the namespace on the cluster from being deleted.",
        WARNS,
    )
    REFERENCE_NOT_FOUND = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "NotFound"),
        "Pods name a Secret or ConfigMap that is not in the replica's namespace.",
        "Create the Secret or ConfigMap that the message names.",
        WARNS,
    )
    POD_NOT_ACCEPTED = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "PodNotAccepted"),
        "Pods have labels, annotations or variables that the cluster does not accept.",
        "Remove them from the template, or ask your platform team to accept them in spec.podKeys.accept.",
        WARNS,
    )
    SERVING = ModelReplicaCondition.MODEL_READY, True, "Serving", "Every engine accepts requests."
    WAITING_FOR_MODEL = (
        *(ModelReplicaCondition.MODEL_READY, False, "WaitingForModel"),
        "The cluster has not accepted the model.",
        "See ModelAccepted.",
    )
    MODEL_STARTING = (
        *(ModelReplicaCondition.MODEL_READY, False, "ModelStarting"),
        "At least one engine does not accept requests yet.",
        "Wait, or read the log: `modelplane logs mr/NAME`.",
    )
    CRASH_LOOP = (
        *(ModelReplicaCondition.MODEL_READY, False, "CrashLoopBackOff"),
        "An engine ends with an error each time. The message has the error.",
        "Correct the command or the image. The log: `modelplane logs mr/NAME --previous`.",
        WARNS,
    )
    IMAGE_PULL = (
        *(ModelReplicaCondition.MODEL_READY, False, "ImagePullBackOff"),
        "The image of an engine cannot be pulled. The message has the error.",
        "Correct the name of the image, or the pull Secret.",
        WARNS,
    )
    ENDPOINT_CREATED = (
        *(ModelReplicaCondition.ROUTING_READY, True, "BackendConfigured"),
        "The replica has a ModelEndpoint of its name, to which services route.",
    )
    NOT_SERVING = (
        *(ModelReplicaCondition.ROUTING_READY, False, "WaitingForBackend"),
        "The replica does not serve, so it has no endpoint.",
        "See ModelReady.",
    )
    NO_ADDRESS = (
        *(ModelReplicaCondition.ROUTING_READY, False, "WaitingForGateway"),
        "The replica serves, but its cluster's gateway has no address yet.",
        "See BackendReady of the InferenceCluster.",
    )
    DRAINING = (
        *(ModelReplicaCondition.ROUTING_READY, None, "Draining"),
        "The replica is about to be deleted. True while a gateway still routes to its endpoint.",
        "Wait.",
    )
    NODES_KEPT = (
        *(ModelReplicaCondition.NODES_KEPT, True, "Healthy"),
        "No node under the replica has a notice of eviction any more. Absent before one.",
    )
    NODE_EVICTED = (
        *(ModelReplicaCondition.NODES_KEPT, False, "NodeEvicted"),
        (
            "A node under the replica is taken back. It is replaced, and withdrawn in time if another one "
            "serves."
        ),
        "None: the replica is replaced if there is capacity.",
    )
    NONE_UNHEALTHY = (
        *(ModelReplicaCondition.DEVICES_HEALTHY, True, "Healthy"),
        "No driver reports a device of its pods as unhealthy. Without any report there is no condition.",
    )
    DEVICE_UNHEALTHY = (
        *(ModelReplicaCondition.DEVICES_HEALTHY, False, "DeviceUnhealthy"),
        "A driver reports a device of its pods as unhealthy. The replica stays.",
        "Repair the node, or drain the pool.",
        WARNS,
    )


class ModelServiceCondition(StrEnum):
    """Condition types of a ModelService."""

    ENDPOINTS_RESOLVED = "EndpointsResolved"
    ROUTING_READY = "RoutingReady"
    SETTINGS_SUPPORTED = "SettingsSupported"
    WITHIN_BUDGET = "WithinBudget"
    STANDBY_ACTIVE = "StandbyActive"


class ModelServiceReason(Reason):
    """Reasons of a ModelService's conditions."""

    RESOLVED = (
        *(ModelServiceCondition.ENDPOINTS_RESOLVED, True, "Resolved"),
        "At least one endpoint is selected.",
    )
    NO_ENDPOINTS = (
        *(ModelServiceCondition.ENDPOINTS_RESOLVED, False, "NoEndpoints"),
        "No endpoint of the namespace is selected.",
        "Correct spec.endpoints, or wait for the replicas of the ModelDeployment.",
        WARNS,
    )
    OUTSIDE_REGIONS = (
        *(ModelServiceCondition.ENDPOINTS_RESOLVED, False, "OutsideRegions"),
        "Every selected endpoint is outside the regions that its ModelDeployments allow.",
        "Correct the regions of the ModelDeployment, or place replicas inside them.",
        WARNS,
    )
    AVAILABLE = (
        *(ModelServiceCondition.WITHIN_BUDGET, True, "Available"),
        "No budget of spec.endpoints is spent. Only with a budget.",
    )
    SPENT = (
        *(ModelServiceCondition.WITHIN_BUDGET, False, "Spent"),
        "A budget is spent: the endpoints of its entry get no requests.",
        "Wait for the time that the message names, or raise the budget.",
    )
    NO_PRICES = (
        *(ModelServiceCondition.WITHIN_BUDGET, False, "NoPrices"),
        "The InferenceGateway has no prices, so budgets in money have no effect.",
        "Ask your platform team to set spec.pricing.",
        WARNS,
    )
    NOT_MEASURED = (
        *(ModelServiceCondition.WITHIN_BUDGET, False, "NoMetrics"),
        "The usage of the endpoints is not known.",
        "Check the gateway: `kubectl get ig default`.",
    )
    ROUTE_CONFIGURED = (
        *(ModelServiceCondition.ROUTING_READY, True, "RouteConfigured"),
        "The gateway routes to at least one endpoint.",
    )
    CONFIGURING = (
        *(ModelServiceCondition.ROUTING_READY, False, "Configuring"),
        "No endpoint can be routed to, or the gateway has not accepted the route yet.",
        "Wait, or correct what the message names.",
    )
    WAITING_FOR_GATEWAY = (
        *(ModelServiceCondition.ROUTING_READY, False, "WaitingForGateway"),
        "The InferenceGateway has no address, or its status has no backend yet.",
        "Check the gateway: `kubectl get ig default`.",
    )
    TOO_MANY_ENDPOINTS = (
        *(ModelServiceCondition.ROUTING_READY, False, "LimitExceeded"),
        (
            "More than 1,024 endpoints are selected, or the services of the namespace route to 10,000 "
            "together. The rest get no traffic."
        ),
        "Select fewer endpoints, or divide them among services or namespaces.",
        WARNS,
    )
    KEEPS_ENDPOINTS = (
        *(ModelServiceCondition.ROUTING_READY, True, "LimitExceeded"),
        "The service keeps endpoints from before the maximum of its namespace, and gets no others.",
        "Select fewer endpoints, or divide them among namespaces.",
    )
    PATH_TAKEN = (
        *(ModelServiceCondition.ROUTING_READY, False, "ReservedNamespace"),
        "The namespace is v1, whose path is the URL for all models.",
        "Use another namespace, or the URL for all models.",
        WARNS,
    )
    UNSUPPORTED = (
        *(ModelServiceCondition.ROUTING_READY, False, "Unsupported"),
        (
            "The gateway cannot do what the service asks for: tiers, holding, balancing, or what all of its "
            "endpoints need. The message names the setting and what happens to requests."
        ),
        "Use backend Envoy with the gateway module, or remove the setting.",
        WARNS,
    )
    SUPPORTED = (
        *(ModelServiceCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "The gateway has every setting. Stated only if one was ignored before.",
    )
    UNSUPPORTED_BACKEND = (
        *(ModelServiceCondition.SETTINGS_SUPPORTED, False, "Unsupported"),
        "The gateway ignores settings, which the message names.",
        "Remove the settings, or ask your platform team for the backend Envoy.",
        WARNS,
    )
    STANDBY_SERVES = (
        *(ModelServiceCondition.STANDBY_ACTIVE, True, "StandbyServes"),
        "A standby serves in place of the first deployment of the order.",
        "See the conditions of the first deployment.",
        WARNS,
    )
    PREFERRED_SERVES = (
        *(ModelServiceCondition.STANDBY_ACTIVE, False, "NotNeeded"),
        "The first deployment of the order serves. The message has the order, and a standby that serves too.",
    )
    NO_VARIANT_SERVES = (
        *(ModelServiceCondition.STANDBY_ACTIVE, False, "NoEndpoints"),
        "No deployment of the order serves.",
        "See the conditions of the first deployment.",
    )
    NO_VARIANTS = (
        *(ModelServiceCondition.STANDBY_ACTIVE, False, "NotRequested"),
        "No selected deployment is a standby for another. Only if one was before.",
    )


class ServingStackCondition(StrEnum):
    """Condition types of a ServingStack."""

    BACKEND_READY = "BackendReady"


class ServingStackReason(Reason):
    """Reasons of a ServingStack's conditions."""

    COMPONENTS_READY = (
        *(ServingStackCondition.BACKEND_READY, True, "BackendHealthy"),
        "Every component is ready.",
    )
    DEGRADED = (
        *(ServingStackCondition.BACKEND_READY, True, "Degraded"),
        "Serving has what it needs. The message names the components that are not ready.",
        "Correct what the message names.",
    )
    INSTALLING = (
        *(ServingStackCondition.BACKEND_READY, False, "Installing"),
        "A component that serving needs is not ready yet.",
        "Wait for what the message names.",
    )
    COMPONENT_FAILED = (
        *(ServingStackCondition.BACKEND_READY, False, "InstallationFailed"),
        "A component that serving needs cannot be installed: the message has the error of its chart.",
        "Correct what the error names.",
        WARNS,
    )
    NO_CLUSTER = (
        *(ServingStackCondition.BACKEND_READY, False, "NotFound"),
        "The stack names no InferenceCluster, or is not in the system's namespace. Nothing is installed.",
        "Correct the name, or create the stack in the system's namespace.",
        WARNS,
    )


EVERY_KIND: Final = "every kind"

FALSE_IS_USUAL: Final = frozenset({"CapacityOvercommitted", "ScalingLimited", "StandbyActive"})
"""Conditions that keep no object from being ready while they are False."""

_KINDS: Final[tuple[tuple[tuple[str, ...], type[Reason]], ...]] = (
    ((EVERY_KIND,), SyncedReason),
    ((EVERY_KIND,), ReadyReason),
    ((EVERY_KIND,), AdmittedReason),
    (("DeviceQuota",), DeviceQuotaReason),
    (("InferenceAutoscaler",), InferenceAutoscalerReason),
    (("InferenceClass",), InferenceClassReason),
    (("InferenceCluster",), InferenceClusterReason),
    (CLUSTER_KINDS, CloudClusterReason),
    (("InferenceGateway",), InferenceGatewayReason),
    (("ModelCache",), ModelCacheReason),
    (("ModelDeployment",), ModelDeploymentReason),
    (("ModelEndpoint",), ModelEndpointReason),
    (("ModelKey",), ModelKeyReason),
    (("ModelReplica",), ModelReplicaReason),
    (("ModelService",), ModelServiceReason),
    (("ServingStack",), ServingStackReason),
)


class Row(NamedTuple):
    """A reason that a kind reports."""

    kind: str
    reason: Reason


ROWS: Final = tuple(Row(kind, reason) for kinds, reasons in _KINDS for kind in kinds for reason in reasons)

_WARNINGS: Final = frozenset(
    (str(reason.type), holds, str(reason))
    for _, reason in ROWS
    if reason.warns
    for holds in (True, False)
    if reason.holds in (holds, None)
)


def is_warning(type_: str, reason: str, *, holds: bool) -> bool:
    """Return True if a condition needs an operator: its event is a warning."""
    return (type_, holds, reason) in _WARNINGS


def list_rows(kind: str) -> Iterator[Reason]:
    """Yield the rows of a kind, with those of every kind."""
    yield from (row.reason for row in ROWS if row.kind in (kind, EVERY_KIND))


@cache
def list_types(kind: str) -> frozenset[str]:
    """Return the types of conditions that a kind has."""
    return frozenset(str(row.type) for row in list_rows(kind))


def find_row(kind: str, type_: str, reason: str, *, holds: bool) -> Reason | None:
    """Return the row of a condition; None for a word of another version."""
    return next(
        (
            row
            for row in list_rows(kind)
            if (row.type, str(row)) == (type_, reason) and row.holds in (holds, None)
        ),
        None,
    )
