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
        "The last reconcile succeeded. All children and the status are up to date.",
    )
    RECONCILE_ERROR = (
        *(CommonCondition.SYNCED, False, "ReconcileError"),
        "A read or write failed. Modelplane retries it automatically.",
        "Fix the cause shown in the message.",
        WARNS,
    )
    RECONCILE_PAUSED = (
        *(CommonCondition.SYNCED, False, "ReconcilePaused"),
        "Reconciliation is paused by an annotation.",
        "Remove the annotation to resume reconciliation.",
    )


class ReadyReason(Reason):
    """Reasons of ``Ready``, the same for all kinds."""

    AVAILABLE = CommonCondition.READY, True, "Available", "The object is ready to serve."
    CREATING = (
        *(CommonCondition.READY, False, "Creating"),
        "The object is being created and hasn't been ready yet.",
        "Wait, or check the conditions that are False.",
    )
    UNAVAILABLE = (
        *(CommonCondition.READY, False, "Unavailable"),
        "The object was ready before and is not ready now.",
        "Check the conditions that are False.",
    )
    DELETING = (
        *(CommonCondition.READY, False, "Deleting"),
        "The object is being deleted.",
        "Wait until the step that the message describes is complete.",
    )


class AdmittedReason(Reason):
    """Reasons of ``Accepted`` of an object that is not composed."""

    RESERVED_NAMESPACE = (
        *(CommonCondition.ACCEPTED, False, "ReservedNamespace"),
        "The namespace is reserved, so the object is ignored. Existing children are kept.",
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
        "The quota applies to new replicas, and the fleet has enough devices for it.",
    )
    FLEET_TOO_SMALL = (
        *(DeviceQuotaCondition.ACCEPTED, True, "Overcommitted"),
        "The quota applies, but it allows more devices of a class than the fleet has.",
        "Lower `nominalQuota`, or add nodes.",
    )
    NAMESPACE_CONFLICT = (
        *(DeviceQuotaCondition.ACCEPTED, False, "NamespaceConflict"),
        "Another DeviceQuota includes the same namespace. No new replicas are placed for that namespace.",
        "Remove the namespace from one of the quotas.",
        WARNS,
    )
    RESOLVED = (
        *(DeviceQuotaCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "Every PriorityClass exists. Present only if the quota lists or has listed a PriorityClass.",
    )
    PRIORITY_CLASS_NOT_FOUND = (
        *(DeviceQuotaCondition.SETTINGS_SUPPORTED, False, "NotFound"),
        "A PriorityClass doesn't exist. No new replicas are placed for deployments that use it.",
        "Create the PriorityClass, or correct `priorityClassNames`.",
        WARNS,
    )
    PRIORITY_CLASS_UNKNOWN = (
        *(DeviceQuotaCondition.SETTINGS_SUPPORTED, False, "Unreadable"),
        "A PriorityClass can't be read. The last known value applies.",
        "Give the controllers permission to read PriorityClasses. The message shows the cause.",
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
        "The autoscaler adjusts the number of replicas to match the load at the gateway.",
    )
    PAUSED = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "Paused"),
        "`spec.paused` pauses the autoscaler, so the number of replicas doesn't change.",
        "Remove `spec.paused` to resume scaling.",
    )
    NO_METRICS = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "NoMetrics"),
        "The load at the gateway can't be read, so the number of replicas doesn't change.",
        "Check the gateway: `kubectl get ig default`.",
        WARNS,
    )
    DEPLOYMENT_NOT_FOUND = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "NotFound"),
        "The ModelDeployment doesn't exist.",
        "Create the ModelDeployment, or correct `spec.deploymentRef`.",
        WARNS,
    )
    OTHER_WRITER = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "OtherWriter"),
        "Another InferenceAutoscaler or another tool also changes `spec.replicas`.",
        "Find out what else writes `spec.replicas`, and stop it.",
        WARNS,
    )
    NOT_WRITTEN = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "ReconcileError"),
        "The number of replicas couldn't be written. The autoscaler retries.",
        "Fix the cause shown in the message.",
        WARNS,
    )
    INVALID_SCHEDULE = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "InvalidSettings"),
        "A schedule has an invalid time or time zone, so the number of replicas doesn't change.",
        "Correct the schedule named in the message.",
        WARNS,
    )
    TOO_MANY_SERVICES = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "LimitExceeded"),
        "More than 128 ModelService selectors could match the deployment, so the replicas don't change.",
        "Remove selectors, or make them more specific.",
        WARNS,
    )
    STANDBY = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "NotNeeded"),
        "The ModelDeployment is a standby that isn't running now.",
        "No action needed. Scaling begins when the standby starts.",
    )
    UNSUPPORTED = (
        *(InferenceAutoscalerCondition.SCALING_ACTIVE, False, "Unsupported"),
        "InferenceAutoscalers don't work under Crossplane.",
        "Use KEDA or a HorizontalPodAutoscaler.",
        WARNS,
    )
    TOO_MANY_REPLICAS = (
        *(InferenceAutoscalerCondition.SCALING_LIMITED, True, "TooManyReplicas"),
        "In the last minute, the load required more replicas than `spec.maxReplicas` allows.",
        "Increase `spec.maxReplicas`.",
    )
    INSUFFICIENT_CAPACITY = (
        *(InferenceAutoscalerCondition.SCALING_LIMITED, True, "InsufficientCapacity"),
        "The fleet doesn't have capacity for all replicas.",
        "Run `modelplane explain md/NAME`, and add the missing capacity.",
    )
    WITHIN_BOUNDS = (
        *(InferenceAutoscalerCondition.SCALING_LIMITED, False, "InForce"),
        "`spec.maxReplicas` is high enough for the load, and all replicas are placed.",
    )


class InferenceClassCondition(StrEnum):
    """Condition types of an InferenceClass."""

    ACCEPTED = "Accepted"


class InferenceClassReason(Reason):
    """Reasons of an InferenceClass's conditions."""

    AVAILABLE = InferenceClassCondition.ACCEPTED, True, "Available", "Node pools can use the class."
    MEMORY_OVERSTATED = (
        *(InferenceClassCondition.ACCEPTED, True, "MemoryOverstated"),
        (
            "Node pools can use the class, but it declares more memory than the GPU has, so pods could "
            "remain Pending."
        ),
        "Reduce the device's memory to the amount shown in the message.",
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
        "The cluster's API server responds.",
    )
    CREDENTIAL_EXPIRING = (
        *(InferenceClusterCondition.CLUSTER_READY, True, "CredentialExpiring"),
        (
            "The cluster's API server responds, but a credential expires soon, or the kubeconfig in "
            "the Secret is no longer accepted."
        ),
        "Renew the credential, or store a valid kubeconfig in the Secret.",
    )
    WAITING_FOR_CLASSES = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "WaitingForClasses"),
        "A node pool references an InferenceClass that doesn't exist.",
        "Create the InferenceClass, or correct the node pool.",
    )
    INVALID_NODE_POOL = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "InvalidNodePool"),
        (
            "The InferenceClass doesn't define how to create nodes for the cluster's source, or the "
            "source doesn't support the pool's fabric."
        ),
        "Correct the node pool or the InferenceClass.",
        WARNS,
    )
    PROVISIONING = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "Provisioning"),
        "The cloud hasn't created the cluster yet.",
        "Wait, or fix the cause shown in the message.",
    )
    UNREACHABLE = (
        *(InferenceClusterCondition.CLUSTER_READY, False, "Unreachable"),
        "The cluster's API server doesn't respond, or rejects the credentials.",
        "Check the cluster, the network, and the kubeconfig in the Secret.",
        WARNS,
    )
    BACKEND_HEALTHY = (
        *(InferenceClusterCondition.BACKEND_READY, True, "BackendHealthy"),
        "Every required component is installed.",
    )
    WAITING_FOR_CLUSTER = (
        *(InferenceClusterCondition.BACKEND_READY, False, "WaitingForCluster"),
        "The cluster is not ready.",
        "Check the `ClusterReady` condition.",
    )
    INSTALLING = (
        *(InferenceClusterCondition.BACKEND_READY, False, "Installing"),
        "A required component isn't installed yet.",
        "Wait, or install the component named in the message.",
    )
    TLS_REQUIRED = (
        *(InferenceClusterCondition.SECURED, True, "InForce"),
        "The cluster's gateway accepts only requests from the fleet's gateway (mutual TLS).",
    )
    ROLLING_OUT = (
        *(InferenceClusterCondition.SECURED, False, "Updating"),
        "Mutual TLS is being turned on or off. The message describes the next step.",
        "Wait until the step that the message describes is complete.",
    )
    INVALID_CERTIFICATE = (
        *(InferenceClusterCondition.SECURED, False, "InvalidCertificate"),
        "A certificate can't be issued or renewed. The current configuration is kept.",
        "Correct the issuer or the permissions named in the message.",
        WARNS,
    )
    UNSUPPORTED_GATEWAY = (
        *(InferenceClusterCondition.SECURED, False, "Unsupported"),
        "Modelplane can't set up mutual TLS on this cluster's gateway. The current configuration is kept.",
        "Use a gateway named in the message, or remove the setting.",
        WARNS,
    )
    DRAINED = (
        *(InferenceClusterCondition.DRAINED, True, "Drained"),
        "The drain is complete. No replicas remain on the cluster or in the pools.",
    )
    DRAINING = (
        *(InferenceClusterCondition.DRAINED, False, "Draining"),
        "Replicas are moving to other clusters or pools, or are waiting to move.",
        "Wait. No action is needed.",
    )
    DRAIN_BLOCKED = (
        *(InferenceClusterCondition.DRAINED, False, "DrainBlocked"),
        "A remaining replica doesn't fit anywhere else. The message names the deployment and the reason.",
        "Add capacity elsewhere, or scale the deployment down.",
    )
    DRAIN_UNKNOWN = (
        *(InferenceClusterCondition.DRAINED, False, "Unreadable"),
        "The fleet's replicas or deployments can't be read.",
        "Correct the object or the permission named in the message.",
    )
    NOT_DRAINING = (
        *(InferenceClusterCondition.DRAINED, False, "NotRequested"),
        "The drain was canceled.",
        "No action needed. You can drain the cluster again.",
    )
    OBSERVED = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, True, "InForce"),
        "Placement uses the observed capacity. The message lists each pool's declared and usable capacity.",
    )
    DRIFTED = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, True, "Drifted"),
        "Placement uses the observed capacity. Some devices differ from the InferenceClass.",
        "Correct the InferenceClass, or the nodes.",
    )
    CAPACITY_STALE = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, False, "Unreadable"),
        "Nodes or devices can't be counted. Placement uses the last known or the declared capacity.",
        "Give the controllers permission to read the objects named in the message.",
        WARNS,
    )
    NOT_OBSERVED = (
        *(InferenceClusterCondition.CAPACITY_OBSERVED, False, "NotObserved"),
        "The cluster isn't observed, for example under Crossplane. Placement uses the declared capacity.",
        "Set `capacitySource` to `Declared`.",
    )
    OVERCOMMITTED = (
        *(InferenceClusterCondition.CAPACITY_OVERCOMMITTED, True, "Overcommitted"),
        (
            "Replicas use more than the usable capacity. They keep running, but pods that "
            "restart could remain Pending."
        ),
        "Repair or add nodes, or scale deployments down.",
    )
    WITHIN_CAPACITY = (
        *(InferenceClusterCondition.CAPACITY_OVERCOMMITTED, False, "Healthy"),
        "The replicas fit in the usable capacity.",
    )
    CAPACITY_UNKNOWN = (
        *(InferenceClusterCondition.CAPACITY_OVERCOMMITTED, False, "Unreadable"),
        "A replica can't be read.",
        "Correct the replica named in the message.",
    )
    NO_NOTICES = (
        *(InferenceClusterCondition.NODES_KEPT, True, "Healthy"),
        "No node has an eviction notice. Present only if the cluster has or had spot pools.",
    )
    NODES_EVICTED = (
        *(InferenceClusterCondition.NODES_KEPT, False, "NodeEvicted"),
        (
            "The cloud is reclaiming nodes. Replicas on these nodes are replaced, and spot pools "
            "receive no new replicas for 15 minutes."
        ),
        "No action needed. Replicas are replaced if there is capacity.",
    )
    NODES_UNKNOWN = (
        *(InferenceClusterCondition.NODES_KEPT, False, "Unreadable"),
        "Nodes can't be listed, so new eviction notices are missed. The last known notices apply.",
        "Give the controllers permission to list the cluster's nodes.",
        WARNS,
    )
    NODES_NOT_OBSERVED = (
        *(InferenceClusterCondition.NODES_KEPT, False, "NotObserved"),
        "No controller watches nodes, for example under Crossplane.",
        "Run Modelplane's controllers, or don't use spot pools.",
    )
    REACHABLE = (
        *(InferenceClusterCondition.REACHABLE, True, "Reachable"),
        "The cluster responds. Present only while a ModelDeployment has failover.",
    )
    SUSPECT = (
        *(InferenceClusterCondition.REACHABLE, False, "Suspect"),
        (
            "The API server or the replicas don't respond. No new replicas of deployments with "
            "failover are placed on the cluster."
        ),
        "Check the cluster and the network.",
    )
    ISOLATED = (
        *(InferenceClusterCondition.REACHABLE, False, "Isolated"),
        "The API server doesn't respond, but the replicas do. The replicas are kept.",
        "Check the network between the control plane and the cluster.",
    )
    LOST = (
        *(InferenceClusterCondition.REACHABLE, False, "Lost"),
        (
            "Neither the API server nor the replicas respond. Replicas of deployments with failover "
            "are replaced."
        ),
        "Repair the cluster, or delete the InferenceCluster.",
        WARNS,
    )
    RETURNING = (
        *(InferenceClusterCondition.REACHABLE, False, "Returning"),
        "The cluster was lost. It responds again, but hasn't done so for long enough yet.",
        "Wait. No action is needed.",
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
        "Wait until the step that the message describes is complete.",
    )
    INSTALLATION_FAILED = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "InstallationFailed"),
        "A Helm chart for the gateway can't be installed. The message shows the error.",
        "Correct the setting named in the message.",
        WARNS,
    )
    IGNORED = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "InvalidSettings"),
        "This InferenceGateway is ignored, because only the InferenceGateway named `default` is used.",
        "Recreate the InferenceGateway with the name `default`.",
        WARNS,
    )
    NOT_PUBLISHED = (
        *(InferenceGatewayCondition.CONTROLLER_READY, False, "Unsupported"),
        "Keys are required, but the backend doesn't support ModelKeys. No service is published.",
        "Use the Envoy backend, or set `spec.authentication` to `None`.",
        WARNS,
    )
    TLS_ONLY = (
        *(InferenceGatewayCondition.SECURED, True, "InForce"),
        "Clients use TLS, and plain HTTP is refused.",
    )
    TLS_INSTALLING = (
        *(InferenceGatewayCondition.SECURED, False, "Installing"),
        "The gateway is not ready yet.",
        "Wait until the step that the message describes is complete.",
    )
    INVALID_CERTIFICATE_REF = (
        *(InferenceGatewayCondition.SECURED, False, "InvalidCertificate"),
        (
            "A certificate is missing, damaged, or expired. Without a previous certificate, the gateway "
            "serves no requests."
        ),
        "Correct the Secret that `spec.tls` references.",
        WARNS,
    )
    TLS_UNSUPPORTED = (
        *(InferenceGatewayCondition.SECURED, False, "Unsupported"),
        "A gateway other than Envoy receives the requests, so `spec.tls` is ignored.",
        "Use the Envoy backend, or configure TLS at the other gateway and remove `spec.tls`.",
        WARNS,
    )
    API_KEY = (
        *(InferenceGatewayCondition.AUTHENTICATED, True, "InForce"),
        "Every request needs an API key from a ModelKey.",
    )
    OPEN = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "Open"),
        "The gateway serves requests without keys, because `spec.authentication` is unset or `None`.",
        "To require keys, set `spec.authentication` to `APIKey`.",
    )
    MODULE_MISSING = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "ModuleMissing"),
        "Keys are required, but Envoy runs without the gateway module, so it serves no requests.",
        "Install the gateway module, as the message describes.",
        WARNS,
    )
    NOT_ENFORCED = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "Unsupported"),
        (
            "Keys are required, but the backend doesn't support ModelKeys. If services are already "
            "published, they accept every request, with or without a key. Otherwise, no service is published."
        ),
        "Use the Envoy backend, or restrict access to the Gateway in another way.",
        WARNS,
    )
    CONFIGURING = (
        *(InferenceGatewayCondition.AUTHENTICATED, False, "Configuring"),
        "Keys are required, but the gateway doesn't check them yet.",
        "Wait. No action is needed.",
    )
    SUPPORTED = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, True, "InForce"),
        (
            "The backend supports every setting. Present only if `spec.aliases` is set, or if a "
            "setting was previously ignored."
        ),
    )
    UNSUPPORTED_BACKEND = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, False, "Unsupported"),
        "The backend ignores some settings. The message lists them.",
        "Remove the settings, or use a backend that supports them.",
        WARNS,
    )
    ALIASES_WITHOUT_MODULE = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, False, "ModuleMissing"),
        "Envoy runs without the gateway module, so it ignores `spec.aliases`.",
        "Install the gateway module, as the message describes.",
        WARNS,
    )
    ALIASES_OPEN = (
        *(InferenceGatewayCondition.SETTINGS_SUPPORTED, False, "Open"),
        "The gateway doesn't require keys, so it ignores aliases that don't list the namespace `*`.",
        "Add `*` to the aliases' namespaces, or set `spec.authentication` to `APIKey`.",
        WARNS,
    )


class CloudClusterCondition(StrEnum):
    """Condition types of a cluster of a cloud, such as a GKECluster."""

    CLUSTER_READY = "ClusterReady"


class CloudClusterReason(Reason):
    """Reasons of the conditions of a cluster of a cloud."""

    RESOURCES_READY = (
        *(CloudClusterCondition.CLUSTER_READY, True, "ClusterRunning"),
        "All of the cluster's managed resources are ready.",
    )
    CREATING = (
        *(CloudClusterCondition.CLUSTER_READY, False, "Provisioning"),
        "The cloud hasn't created every resource yet, or refuses to create one.",
        "Wait, or fix the cloud error shown in the message.",
    )
    PROVIDER_NOT_INSTALLED = (
        *(CloudClusterCondition.CLUSTER_READY, False, "ProviderNotInstalled"),
        "A kind of managed resource isn't installed. The message names the package that contains it.",
        "Install the provider's package.",
        WARNS,
    )
    INVALID_SETTINGS = (
        *(CloudClusterCondition.CLUSTER_READY, False, "InvalidSettings"),
        "The settings contradict each other or the cloud's rules. Nothing changes until you correct them.",
        "Correct the settings named in the message.",
        WARNS,
    )
    WAITING_FOR_ACCOUNT = (
        *(CloudClusterCondition.CLUSTER_READY, False, "NotFound"),
        "A required provider configuration doesn't exist or can't be read.",
        "Create the provider configuration, or correct the name.",
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
        "At least one selected cluster has storage for caches.",
    )
    NO_MATCH = (
        *(ModelCacheCondition.CLUSTERS_MATCHED, False, "NoClusters"),
        "No selected cluster has storage for caches.",
        "Correct the selector, or configure storage for caches on a cluster.",
    )
    STAGED = ModelCacheCondition.ARTIFACT_READY, True, "Staged", "The weights are on every matched cluster."
    NO_CLUSTERS = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "NoClusters"),
        "No cluster is available on which to stage the weights.",
        "Check the `ClustersMatched` condition.",
    )
    AUTH_SECRET_MISSING = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "AuthSecretMissing"),
        "The Secret or the token key doesn't exist or is empty.",
        "Create the Secret with the key named in the message.",
        WARNS,
    )
    FAILED = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "Failed"),
        "Staging failed on at least one cluster.",
        "Fix the cause shown in the message.",
        WARNS,
    )
    PARTIAL = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "Partial"),
        "The weights are on some of the clusters.",
        "Wait. No action is needed.",
    )
    HYDRATING = (
        *(ModelCacheCondition.ARTIFACT_READY, False, "Hydrating"),
        "The weights aren't on any cluster yet.",
        "Wait. No action is needed.",
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
        "Every desired replica is placed on a cluster.",
    )
    NO_CLUSTERS = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "NoClusters"),
        "The fleet doesn't have any InferenceClusters.",
        "Register a cluster: `modelplane cluster register`.",
        WARNS,
    )
    INVALID_NODE_SELECTOR = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "InvalidNodeSelector"),
        "A device selector isn't valid CEL. Existing replicas don't change.",
        "Correct the selector named in the message.",
        WARNS,
    )
    INSUFFICIENT_CAPACITY = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "InsufficientCapacity"),
        "Fewer replicas than desired are placed. The message shows both numbers and the cause.",
        "Run `modelplane explain md/NAME` to see the smallest change that helps.",
        WARNS,
    )
    POD_NOT_ACCEPTED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "PodNotAccepted"),
        "The pods have labels, annotations, or variables that no cluster accepts. The message lists them.",
        "Remove them from the template, or ask your platform team to add them to `spec.podKeys.accept`.",
        WARNS,
    )
    QUOTA_EXCEEDED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "QuotaExceeded"),
        "Enough capacity is available, but the namespace's DeviceQuota doesn't allow more replicas.",
        "Scale down another deployment in the namespace, or ask your platform team for more quota.",
        WARNS,
    )
    QUOTA_UNKNOWN = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "Unreadable"),
        "The namespace's DeviceQuota can't be determined, so no new replicas are placed.",
        "Correct the DeviceQuota named in the message.",
        WARNS,
    )
    PRIORITY_REFUSED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "NotGranted"),
        "The PriorityClass doesn't exist, or the namespace's DeviceQuota doesn't allow it.",
        "Use a PriorityClass that the DeviceQuota allows, or ask your platform team to allow this class.",
        WARNS,
    )
    PREEMPTED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "Preempted"),
        "Replicas are being removed, because a deployment with a higher priority needs the devices.",
        "Add capacity, or increase the priority.",
        WARNS,
    )
    STABLE_UNPLACED = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "NotFound"),
        (
            "A new replica of the old revision can't be placed during a canary, because the old "
            "template or its ModelCache no longer exists."
        ),
        "Recreate the ModelCache, or end the canary.",
        WARNS,
    )
    SCHEDULING = (
        *(ModelDeploymentCondition.REPLICAS_SCHEDULED, False, "Scheduling"),
        "Replicas are placed and are being created.",
        "Wait. No action is needed.",
    )
    ALL_REPLICAS_READY = (
        *(ModelDeploymentCondition.REPLICAS_READY, True, "AllReplicasReady"),
        "Every desired replica is serving requests.",
    )
    NO_REPLICAS_SCHEDULED = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "NoReplicasScheduled"),
        "No replica is placed.",
        "Check the `ReplicasScheduled` condition.",
    )
    MODEL_STARTING = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "ModelStarting"),
        "At least one replica isn't serving requests yet.",
        "Wait, or check the conditions of the replica named in the message.",
    )
    CRASH_LOOP = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "CrashLoopBackOff"),
        "A replica's engine crashes repeatedly. The message names the replica and shows the error.",
        "Correct the command or the image. To read the log, run `modelplane logs md/NAME --previous`.",
        WARNS,
    )
    IMAGE_PULL = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "ImagePullBackOff"),
        "A replica's image can't be pulled. The message names the replica and shows the error.",
        "Correct the image name or the image pull Secret.",
        WARNS,
    )
    CLUSTER_UNREACHABLE = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "ClusterUnreachable"),
        "A cluster doesn't respond, so the state of the replicas is unknown.",
        "Check the cluster. To replace replicas on lost clusters, set `spec.failover`.",
        WARNS,
    )
    UPDATING = (
        *(ModelDeploymentCondition.REPLICAS_READY, False, "Updating"),
        "The replicas are serving requests, but some don't have the current template yet.",
        "Wait. No action is needed.",
    )
    MODEL_CACHE_RESOLVED = (
        *(ModelDeploymentCondition.MODEL_CACHE_RESOLVED, True, "ModelCacheResolved"),
        "The ModelCache exists.",
    )
    MODEL_CACHE_UNRESOLVED = (
        *(ModelDeploymentCondition.MODEL_CACHE_RESOLVED, False, "ModelCacheUnresolved"),
        "Modelplane hasn't looked up the ModelCache yet.",
        "Wait. No action is needed.",
    )
    MODEL_CACHE_NOT_FOUND = (
        *(ModelDeploymentCondition.MODEL_CACHE_RESOLVED, False, "ModelCacheNotFound"),
        "The namespace doesn't contain a ModelCache with this name.",
        "Create the ModelCache, or correct the name.",
        WARNS,
    )
    WATCHING = (
        *(ModelDeploymentCondition.FAILOVER, True, "InForce"),
        "Replicas are replaced if a cluster is lost.",
    )
    REPLACING = (
        *(ModelDeploymentCondition.FAILOVER, True, "Replacing"),
        "Replicas on a lost cluster are being replaced or have been replaced.",
    )
    FAILOVER_OFF = (
        *(ModelDeploymentCondition.FAILOVER, True, "NotRequested"),
        "Failover was turned off for the deployment.",
    )
    FAILOVER_PAUSED = (
        *(ModelDeploymentCondition.FAILOVER, False, "FailoverPaused"),
        (
            "Clusters are lost, but no replicas are replaced, because the control plane itself "
            "could be disconnected."
        ),
        "Check the control plane's network. Failover resumes automatically.",
        WARNS,
    )
    NOT_SUPPORTED = (
        *(ModelDeploymentCondition.FAILOVER, False, "Unsupported"),
        "Failover doesn't work under Crossplane, so no replicas are replaced.",
        "Run Modelplane's controllers, or remove `spec.failover`.",
        WARNS,
    )
    ROLLOUT_COMPLETE = (
        *(ModelDeploymentCondition.PROGRESSING, True, "RolloutComplete"),
        "Every replica has the current template and has served requests.",
    )
    REPLICAS_UPDATING = (
        *(ModelDeploymentCondition.PROGRESSING, True, "Updating"),
        "Replicas are being updated to the current template. The message shows the progress.",
    )
    ROLLOUT_PAUSED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "Paused"),
        "The rollout is paused by `spec.rollout.paused`.",
        "To continue, run `modelplane rollout resume md/NAME`.",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "ProgressDeadlineExceeded"),
        (
            "The rollout made no progress for `progressDeadlineSeconds`. The message names the "
            "replica, the cluster, and the cause."
        ),
        "Correct the template, or roll back with `modelplane rollout undo md/NAME`.",
        WARNS,
    )
    CANARY_RUNNING = (
        *(ModelDeploymentCondition.PROGRESSING, True, "CanaryRunning"),
        "The new revision receives some requests. The message shows the step and the number of responses.",
    )
    CANARY_HOLDS = (
        *(ModelDeploymentCondition.PROGRESSING, False, "CanaryHolds"),
        (
            "The canary is waiting for responses, a gateway, or a replica, or is on hold because both "
            "revisions are failing."
        ),
        "Wait, or roll back with `modelplane rollout undo md/NAME`.",
    )
    CANARY_ABORTED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "CanaryAborted"),
        (
            "The new revision exceeded one of the canary's limits. It receives no requests, and no "
            "more replicas are updated."
        ),
        "Correct the template, or roll back with `modelplane rollout undo md/NAME`.",
        WARNS,
    )
    CANARY_UNSUPPORTED = (
        *(ModelDeploymentCondition.PROGRESSING, False, "Unsupported"),
        (
            "The canary can't start, so no replicas are updated. Either no gateway counts responses, "
            "or the deployment has only one replica and doesn't allow a surge."
        ),
        "Remove `spec.rollout.canary`, allow a surge, or use the gateway named in the message.",
        WARNS,
    )
    STABLE_NOT_FOUND = (
        *(ModelDeploymentCondition.PROGRESSING, False, "NotFound"),
        (
            "No replica of the old revision can be created during a canary, because the old "
            "template or its ModelCache no longer exists."
        ),
        "Recreate the ModelCache, or end the canary.",
        WARNS,
    )
    UNPLACED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "Unplaced"),
        "The standby is running, because the preferred deployment lacks capacity.",
    )
    SATURATED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "Saturated"),
        "The standby is running, because the preferred deployment is saturated.",
    )
    HAD_REPLICAS = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "HadReplicas"),
        "The standby is running, because it already had replicas when it became a standby.",
    )
    NOT_A_STANDBY = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, True, "NotRequested"),
        "The deployment isn't a standby. This reason appears only under Crossplane.",
    )
    NOT_NEEDED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, False, "NotNeeded"),
        "The standby isn't running, because the preferred deployment has capacity.",
        "No action needed. The standby starts when it is needed.",
    )
    PENDING = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, False, "Pending"),
        "The standby is needed but isn't running yet. The message shows how long it has been needed.",
        "Wait. No action is needed.",
    )
    PREFERRED_NOT_FOUND = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "NotFound"),
        (
            "The ModelDeployment in `spec.standbyFor` doesn't exist or is being deleted. The standby's "
            "state doesn't change."
        ),
        "Create the ModelDeployment, or correct `spec.standbyFor`.",
        WARNS,
    )
    PREFERRED_UNREADABLE = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "Unreadable"),
        "The ModelDeployment in `spec.standbyFor` can't be read. The standby's state doesn't change.",
        "Correct the object or the permission named in the message.",
        WARNS,
    )
    STANDBY_CYCLE = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "InvalidSettings"),
        "Deployments are standbys for each other. The standby's state doesn't change.",
        "Correct `spec.standbyFor` in one of these deployments.",
        WARNS,
    )
    TOO_MANY_PREFERRED = (
        *(ModelDeploymentCondition.STANDBY_ACTIVE, None, "LimitExceeded"),
        "More than 8 deployments come before this standby in the chain. The standby's state doesn't change.",
        "Shorten the chain of deployments in `spec.standbyFor`.",
        WARNS,
    )
    POD_ACCEPTED = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "Every setting takes effect. Present only if a setting was previously ignored.",
    )
    POD_REFUSED = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, False, "PodNotAccepted"),
        "A cluster refuses some of the pods' labels, annotations, or variables. Existing pods keep running.",
        "Remove them from the template, or ask your platform team to add them to `spec.podKeys.accept`.",
        WARNS,
    )
    UNDEFINED_VARIABLE = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, False, "InvalidSettings"),
        "A container receives the literal text `$(NAME)`, because this variable isn't defined.",
        "Define the variable in `env`, or write `$$(NAME)` for the literal text.",
        WARNS,
    )
    SATURATION_UNKNOWN = (
        *(ModelDeploymentCondition.SETTINGS_SUPPORTED, False, "NoMetrics"),
        (
            "The deployment in `spec.standbyFor` can't become Saturated without an "
            "InferenceAutoscaler. Other triggers work."
        ),
        "Create an InferenceAutoscaler for it, or remove `Saturated` from `spec.standbyFor.when`.",
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
        "The replica isn't serving yet, the backend is being created, or the gateway isn't known yet.",
        "Wait until the step that the message describes is complete.",
    )
    INVALID_URL = (
        *(ModelEndpointCondition.ROUTING_READY, False, "InvalidURL"),
        "The URL has no host, or the port is not a number.",
        "Correct `spec.url`.",
        WARNS,
    )
    DESTINATION_REFUSED = (
        *(ModelEndpointCondition.ROUTING_READY, False, "DestinationRefused"),
        "The URL leads to a gateway, a metadata service, or an internal or denied address.",
        (
            "Use another address, or ask your platform team to add the address to the "
            "InferenceGateway's `spec.allowedDestinations`."
        ),
        WARNS,
    )
    UNSUPPORTED = (
        *(ModelEndpointCondition.ROUTING_READY, False, "Unsupported"),
        (
            "The gateway doesn't support the endpoint's model, credential, or mutual TLS, so the "
            "endpoint receives no requests."
        ),
        "Use the backend named in the message, or remove the setting.",
        WARNS,
    )
    IN_FORCE = (
        *(ModelEndpointCondition.AUTHENTICATED, True, "InForce"),
        "The gateway sends the credential from the Secret.",
    )
    SECRET_REFUSED = (
        *(ModelEndpointCondition.AUTHENTICATED, False, "SecretRefused"),
        "The Secret is missing, or doesn't permit use with this host. The endpoint receives no requests.",
        "Create the Secret, or add the permission that the message describes.",
        WARNS,
    )
    SECRET_UNREADABLE = (
        *(ModelEndpointCondition.AUTHENTICATED, False, "Unreadable"),
        "The Secret can't be read. The previous credential remains in use.",
        "Give the controllers permission to read the Secret.",
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
        "The namespace's grant allows every service and region in the key.",
    )
    NOT_GRANTED = (
        *(ModelKeyCondition.ACCEPTED, False, "NotGranted"),
        (
            "The InferenceGateway contains no grant for the namespace, or the grant doesn't include "
            "one of the key's services or regions. The key's other services and regions work."
        ),
        "Remove the service or region from the key, or ask your platform team to add it to `spec.keyGrants`.",
        WARNS,
    )
    IN_FORCE = (
        *(ModelKeyCondition.AUTHENTICATED, True, "InForce"),
        "The gateway requires keys, and this key is valid.",
    )
    GATEWAY_OPEN = (
        *(ModelKeyCondition.AUTHENTICATED, False, "Open"),
        "The gateway doesn't require keys, so it also serves requests without a key.",
        "To require keys, set the InferenceGateway's `spec.authentication` to `APIKey`.",
    )
    GATEWAY_NOT_READY = (
        *(ModelKeyCondition.AUTHENTICATED, False, "WaitingForGateway"),
        "The gateway is configured to require keys, but isn't enforcing this setting.",
        "Check the InferenceGateway's `Authenticated` condition.",
    )
    CONFIGURING = (
        *(ModelKeyCondition.AUTHENTICATED, False, "Configuring"),
        "The gateway hasn't loaded the key or the latest change yet.",
        "Wait. No action is needed.",
    )
    NOT_IN_FORCE = (
        *(ModelKeyCondition.AUTHENTICATED, False, "NotInForce"),
        "The gateway rejected the key, one of its hashes, or the latest change to the key.",
        "Fix the cause shown in the message.",
        WARNS,
    )
    NOT_REPORTED = (
        *(ModelKeyCondition.AUTHENTICATED, False, "NotObserved"),
        (
            "The gateway requires keys. Under Crossplane, Modelplane can't tell whether the gateway "
            "has loaded this key."
        ),
        "No action needed. To test the key, send a request with it.",
    )
    RATE_LIMIT_SERVICE = (
        *(ModelKeyCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "The rate limit service enforces the limits. Present only for keys with Global limits.",
    )
    NO_RATE_LIMIT_SERVICE = (
        *(ModelKeyCondition.SETTINGS_SUPPORTED, False, "Unsupported"),
        "The InferenceGateway has no rate limit service. Each gateway enforces an equal share of the limits.",
        "Ask your platform team to set the InferenceGateway's `spec.rateLimitService`.",
        WARNS,
    )
    TYPE_NOT_GRANTED = (
        *(ModelKeyCondition.SETTINGS_SUPPORTED, False, "NotGranted"),
        "The grant doesn't allow Global limits. Each gateway enforces an equal share of the limits.",
        "Remove `spec.rateLimitType`, or ask your platform team to allow Global limits.",
        WARNS,
    )
    AVAILABLE = (
        *(ModelKeyCondition.WITHIN_BUDGET, True, "Available"),
        "The budgets for the key and the namespace aren't used up. Present only if a budget is set.",
    )
    SPENT = (
        *(ModelKeyCondition.WITHIN_BUDGET, False, "Spent"),
        (
            "The budget for the key, or for all keys in the namespace, is used up. The message names "
            "the budget and shows when it resets."
        ),
        "Wait, or increase the budget.",
    )
    NO_PRICES = (
        *(ModelKeyCondition.WITHIN_BUDGET, False, "NoPrices"),
        "The InferenceGateway has no prices, so cost budgets have no effect.",
        "Ask your platform team to set the InferenceGateway's `spec.pricing`.",
        WARNS,
    )
    NOT_MEASURED = (
        *(ModelKeyCondition.WITHIN_BUDGET, False, "NoMetrics"),
        "The keys' usage is unknown. Keys that had already used up a budget are still refused.",
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
        "The workloads for all engines exist on the cluster.",
    )
    WAITING_FOR_CLUSTER = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "WaitingForCluster"),
        "The InferenceCluster doesn't exist, or its status lacks values that the replica needs.",
        "Check the conditions of the InferenceCluster.",
    )
    CLUSTER_UNREACHABLE = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "ClusterUnreachable"),
        "The cluster's API server doesn't respond. Workloads keep running.",
        "Check the cluster, the network, and the kubeconfig in the Secret.",
        WARNS,
    )
    WAITING_FOR_CACHE = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "WaitingForCache"),
        "The weights aren't staged on the cluster yet.",
        "Wait, or check the conditions of the ModelCache.",
    )
    DEPLOYING = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "Deploying"),
        "At least one workload doesn't exist on the cluster yet.",
        "Wait. No action is needed.",
    )
    UPDATING = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, True, "Updating"),
        "The replica is serving requests, but some engine copies haven't received the latest change yet.",
    )
    UNSUPPORTED_TOPOLOGY = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "Unsupported"),
        "The cluster can't run an engine with this topology.",
        "On the cluster, install the component named in the message, or select other clusters.",
        WARNS,
    )
    NAMESPACE_NOT_LABELED = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "NamespaceNotLabeled"),
        (
            "The namespace on the cluster doesn't belong to Modelplane, so Modelplane writes nothing "
            "to it. Existing objects are kept."
        ),
        "Label the namespace on the cluster as the message describes, or use another namespace.",
        WARNS,
    )
    NAMESPACE_TERMINATING = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "NamespaceTerminating"),
        "The namespace on the cluster is being deleted. Modelplane waits until it is gone.",
        "Find out what blocks the namespace's deletion on the cluster.",
        WARNS,
    )
    REFERENCE_NOT_FOUND = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "NotFound"),
        "Pods use a Secret or ConfigMap that doesn't exist in the replica's namespace.",
        "Create the Secret or ConfigMap named in the message.",
        WARNS,
    )
    POD_NOT_ACCEPTED = (
        *(ModelReplicaCondition.MODEL_ACCEPTED, False, "PodNotAccepted"),
        "Pods have labels, annotations, or variables that the cluster doesn't accept.",
        "Remove them from the template, or ask your platform team to add them to `spec.podKeys.accept`.",
        WARNS,
    )
    SERVING = ModelReplicaCondition.MODEL_READY, True, "Serving", "Every engine accepts requests."
    WAITING_FOR_MODEL = (
        *(ModelReplicaCondition.MODEL_READY, False, "WaitingForModel"),
        "The cluster hasn't accepted the workloads.",
        "Check the `ModelAccepted` condition.",
    )
    MODEL_STARTING = (
        *(ModelReplicaCondition.MODEL_READY, False, "ModelStarting"),
        "At least one engine isn't ready for requests yet.",
        "Wait, or read the log with `modelplane logs mr/NAME`.",
    )
    CRASH_LOOP = (
        *(ModelReplicaCondition.MODEL_READY, False, "CrashLoopBackOff"),
        "An engine crashes repeatedly. The message shows the error.",
        "Correct the command or the image. To read the log, run `modelplane logs mr/NAME --previous`.",
        WARNS,
    )
    IMAGE_PULL = (
        *(ModelReplicaCondition.MODEL_READY, False, "ImagePullBackOff"),
        "An engine's image can't be pulled. The message shows the error.",
        "Correct the image name or the image pull Secret.",
        WARNS,
    )
    ENDPOINT_CREATED = (
        *(ModelReplicaCondition.ROUTING_READY, True, "BackendConfigured"),
        "The replica has a ModelEndpoint with the same name.",
    )
    NOT_SERVING = (
        *(ModelReplicaCondition.ROUTING_READY, False, "WaitingForBackend"),
        "The replica isn't serving requests, so it has no endpoint.",
        "Check the `ModelReady` condition.",
    )
    NO_ADDRESS = (
        *(ModelReplicaCondition.ROUTING_READY, False, "WaitingForGateway"),
        "The replica is serving requests, but the cluster's gateway has no address yet.",
        "Check the InferenceCluster's `BackendReady` condition.",
    )
    DRAINING = (
        *(ModelReplicaCondition.ROUTING_READY, None, "Draining"),
        "The replica will be deleted. The condition remains True while a gateway routes to the endpoint.",
        "Wait. No action is needed.",
    )
    NODES_KEPT = (
        *(ModelReplicaCondition.NODES_KEPT, True, "Healthy"),
        "None of the replica's nodes has an eviction notice anymore. Present only after the first notice.",
    )
    NODE_EVICTED = (
        *(ModelReplicaCondition.NODES_KEPT, False, "NodeEvicted"),
        (
            "The cloud is reclaiming one of the replica's nodes. The replica is being replaced. If a "
            "replacement starts serving requests in time, the replica is removed before the node is "
            "reclaimed."
        ),
        "No action needed. The replica is replaced if there is capacity.",
    )
    NONE_UNHEALTHY = (
        *(ModelReplicaCondition.DEVICES_HEALTHY, True, "Healthy"),
        "The pods' devices are healthy. Present only if a driver reports health.",
    )
    DEVICE_UNHEALTHY = (
        *(ModelReplicaCondition.DEVICES_HEALTHY, False, "DeviceUnhealthy"),
        "A driver reports that a pod's device is unhealthy. The replica isn't removed.",
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
        "The selectors match no endpoint in the namespace.",
        "Correct `spec.endpoints`, or wait for the ModelDeployment's replicas.",
        WARNS,
    )
    OUTSIDE_REGIONS = (
        *(ModelServiceCondition.ENDPOINTS_RESOLVED, False, "OutsideRegions"),
        "Every selected endpoint is outside the regions that the ModelDeployment allows.",
        "Correct the ModelDeployment's regions, or place replicas in these regions.",
        WARNS,
    )
    AVAILABLE = (
        *(ModelServiceCondition.WITHIN_BUDGET, True, "Available"),
        "The budgets in `spec.endpoints` aren't used up. Present only if a budget is set.",
    )
    SPENT = (
        *(ModelServiceCondition.WITHIN_BUDGET, False, "Spent"),
        "The budget for an entry in `spec.endpoints` is used up, so those endpoints receive no requests.",
        "Wait until the time shown in the message, or increase the budget.",
    )
    NO_PRICES = (
        *(ModelServiceCondition.WITHIN_BUDGET, False, "NoPrices"),
        "The InferenceGateway has no prices, so cost budgets have no effect.",
        "Ask your platform team to set the InferenceGateway's `spec.pricing`.",
        WARNS,
    )
    NOT_MEASURED = (
        *(ModelServiceCondition.WITHIN_BUDGET, False, "NoMetrics"),
        "The endpoints' usage is unknown.",
        "Check the gateway: `kubectl get ig default`.",
    )
    ROUTE_CONFIGURED = (
        *(ModelServiceCondition.ROUTING_READY, True, "RouteConfigured"),
        "The gateway routes to at least one endpoint.",
    )
    CONFIGURING = (
        *(ModelServiceCondition.ROUTING_READY, False, "Configuring"),
        "No endpoint is usable yet, or the gateway hasn't accepted the route yet.",
        "Wait, or fix the cause shown in the message.",
    )
    WAITING_FOR_GATEWAY = (
        *(ModelServiceCondition.ROUTING_READY, False, "WaitingForGateway"),
        "The InferenceGateway has no address or no backend yet.",
        "Check the gateway: `kubectl get ig default`.",
    )
    TOO_MANY_ENDPOINTS = (
        *(ModelServiceCondition.ROUTING_READY, False, "LimitExceeded"),
        (
            "More than 1,024 endpoints are selected, or the namespace's services route to more than "
            "10,000 endpoints in total. The remaining endpoints receive no requests."
        ),
        "Select fewer endpoints, or split them across services or namespaces.",
        WARNS,
    )
    KEEPS_ENDPOINTS = (
        *(ModelServiceCondition.ROUTING_READY, True, "LimitExceeded"),
        "The namespace has the maximum number of endpoints. The service keeps only its current endpoints.",
        "Select fewer endpoints, or split them across namespaces.",
    )
    PATH_TAKEN = (
        *(ModelServiceCondition.ROUTING_READY, False, "ReservedNamespace"),
        "The namespace name `v1` conflicts with `/v1`, the path of the URL that serves all models.",
        "Create the service in another namespace, or use the URL that serves all models.",
        WARNS,
    )
    UNSUPPORTED = (
        *(ModelServiceCondition.ROUTING_READY, False, "Unsupported"),
        (
            "The gateway doesn't support a setting of the service or of all its endpoints, such as "
            "tiers, hold, or balancing. The message names the setting and the effect on requests."
        ),
        "Use the Envoy backend with the gateway module, or remove the setting.",
        WARNS,
    )
    SUPPORTED = (
        *(ModelServiceCondition.SETTINGS_SUPPORTED, True, "InForce"),
        "The gateway supports every setting. Present only if a setting was previously ignored.",
    )
    UNSUPPORTED_BACKEND = (
        *(ModelServiceCondition.SETTINGS_SUPPORTED, False, "Unsupported"),
        "The gateway ignores some settings. The message lists them.",
        "Remove the settings, or ask your platform team to switch to the Envoy backend.",
        WARNS,
    )
    STANDBY_SERVES = (
        *(ModelServiceCondition.STANDBY_ACTIVE, True, "StandbyServes"),
        "A standby is serving requests instead of the preferred deployment.",
        "Check the conditions of the preferred deployment.",
        WARNS,
    )
    PREFERRED_SERVES = (
        *(ModelServiceCondition.STANDBY_ACTIVE, False, "NotNeeded"),
        (
            "The preferred deployment is serving requests. The message lists the order and any standby "
            "that is also serving requests."
        ),
    )
    NO_VARIANT_SERVES = (
        *(ModelServiceCondition.STANDBY_ACTIVE, False, "NoEndpoints"),
        "Neither the preferred deployment nor a standby is serving requests.",
        "Check the conditions of the preferred deployment.",
    )
    NO_VARIANTS = (
        *(ModelServiceCondition.STANDBY_ACTIVE, False, "NotRequested"),
        "None of the selected deployments is a standby. Present only if one was previously a standby.",
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
        "All required components are ready, but other components are not. The message lists them.",
        "Fix the cause shown in the message.",
    )
    INSTALLING = (
        *(ServingStackCondition.BACKEND_READY, False, "Installing"),
        "A required component isn't ready yet.",
        "Wait until the step that the message describes is complete.",
    )
    COMPONENT_FAILED = (
        *(ServingStackCondition.BACKEND_READY, False, "InstallationFailed"),
        "A required component can't be installed. The message shows the Helm chart's error.",
        "Fix the error shown in the message.",
        WARNS,
    )
    NO_CLUSTER = (
        *(ServingStackCondition.BACKEND_READY, False, "NotFound"),
        "`spec.clusterName` is empty, or the stack isn't in the system namespace. Nothing is installed.",
        "Set `spec.clusterName`, or create the stack in the system namespace.",
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
