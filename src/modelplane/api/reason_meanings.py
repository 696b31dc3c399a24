"""Meanings of condition reasons on each kind, and the reasons that call for action.

The reference page of conditions is generated from this list.
"""

from modelplane.api.clouds import CLUSTER_KINDS
from modelplane.api.documented import reasons as _reasons
from modelplane.api.reasons import (
    AdmittedReason,
    CloudClusterCondition,
    CloudClusterReason,
    CommonCondition,
    DeviceQuotaCondition,
    DeviceQuotaReason,
    InferenceAutoscalerCondition,
    InferenceAutoscalerReason,
    InferenceClassCondition,
    InferenceClassReason,
    InferenceClusterCondition,
    InferenceClusterReason,
    InferenceGatewayCondition,
    InferenceGatewayReason,
    ModelCacheCondition,
    ModelCacheReason,
    ModelDeploymentCondition,
    ModelDeploymentReason,
    ModelEndpointCondition,
    ModelEndpointReason,
    ModelKeyCondition,
    ModelKeyReason,
    ModelReplicaCondition,
    ModelReplicaReason,
    ModelServiceCondition,
    ModelServiceReason,
    ReadyReason,
    ServingStackCondition,
    ServingStackReason,
    SyncedReason,
)

EVERY_KIND = "every kind"

_AUTOSCALER = InferenceAutoscalerReason
_CLOUD = CloudClusterReason
_CLUSTER = InferenceClusterReason
_GATEWAY = InferenceGatewayReason
_QUOTA = DeviceQuotaReason
_CACHE = ModelCacheReason
_DEPLOYMENT = ModelDeploymentReason
_ENDPOINT = ModelEndpointReason
_KEY = ModelKeyReason
_REPLICA = ModelReplicaReason
_SERVICE = ModelServiceReason
_STACK = ServingStackReason

DOCUMENTED = (
    *_reasons(
        EVERY_KIND,
        CommonCondition.SYNCED,
        (
            True,
            SyncedReason.RECONCILE_SUCCESS,
            "The last reconcile succeeded: all children and the status are written.",
        ),
        (False, SyncedReason.RECONCILE_ERROR, "A read or a write failed. It is retried."),
        (False, SyncedReason.RECONCILE_PAUSED, "An annotation pauses reconciliation."),
        alarming=(SyncedReason.RECONCILE_ERROR,),
    ),
    *_reasons(
        EVERY_KIND,
        CommonCondition.READY,
        (True, ReadyReason.AVAILABLE, "Ready to serve."),
        (False, ReadyReason.CREATING, "Being created; not ready for the first time yet."),
        (False, ReadyReason.UNAVAILABLE, "It was ready before and is not ready now."),
        (False, ReadyReason.DELETING, "It is being deleted."),
    ),
    *_reasons(
        EVERY_KIND,
        CommonCondition.ADMITTED,
        (
            False,
            AdmittedReason.RESERVED_NAMESPACE,
            "The namespace is reserved: nothing is composed in it. Existing children stay.",
        ),
        alarming=(AdmittedReason.RESERVED_NAMESPACE,),
    ),
    *_reasons(
        "DeviceQuota",
        DeviceQuotaCondition.ACCEPTED,
        (True, _QUOTA.IN_FORCE, "New replicas of the namespaces are compared with the quota."),
        (
            False,
            _QUOTA.NAMESPACE_CONFLICT,
            "Another DeviceQuota names one of the namespaces. No new replica is placed in that namespace.",
        ),
        alarming=(_QUOTA.NAMESPACE_CONFLICT,),
    ),
    *_reasons(
        "DeviceQuota",
        DeviceQuotaCondition.EXCEEDS_CAPACITY,
        (True, _QUOTA.FLEET_TOO_SMALL, "The quota promises more devices of a class than the fleet has."),
        (False, _QUOTA.WITHIN_CAPACITY, "The fleet has the devices that the quota promises."),
    ),
    *_reasons(
        "DeviceQuota",
        DeviceQuotaCondition.PRIORITY_CLASSES_RESOLVED,
        (True, _QUOTA.RESOLVED, "Every PriorityClass exists. Absent if none was ever named."),
        (
            False,
            _QUOTA.PRIORITY_CLASS_NOT_FOUND,
            "A PriorityClass does not exist. Deployments that name it get no new replicas.",
        ),
        (False, _QUOTA.PRIORITY_CLASS_UNKNOWN, "A PriorityClass cannot be read. Its last value counts."),
        alarming=(_QUOTA.PRIORITY_CLASS_NOT_FOUND, _QUOTA.PRIORITY_CLASS_UNKNOWN),
    ),
    *_reasons(
        "InferenceAutoscaler",
        InferenceAutoscalerCondition.SCALING_ACTIVE,
        (True, _AUTOSCALER.MEASURED, "The gateway's counts decide the number of replicas."),
        (False, _AUTOSCALER.PAUSED, "spec.paused is true. The number of replicas stays."),
        (False, _AUTOSCALER.NO_METRICS, "The gateway's counts cannot be read. The number of replicas stays."),
        (False, _AUTOSCALER.DEPLOYMENT_NOT_FOUND, "The ModelDeployment does not exist."),
        (False, _AUTOSCALER.OTHER_AUTOSCALER, "An older InferenceAutoscaler scales the ModelDeployment."),
        (
            False,
            _AUTOSCALER.OTHER_WRITER,
            "Something else keeps changing spec.replicas. The number of replicas is left to it.",
        ),
        (False, _AUTOSCALER.NOT_WRITTEN, "The number of replicas could not be written. It is retried."),
        (False, _AUTOSCALER.UNSUPPORTED, "Under Crossplane, nothing scales by InferenceAutoscalers."),
        alarming=(
            _AUTOSCALER.NO_METRICS,
            _AUTOSCALER.DEPLOYMENT_NOT_FOUND,
            _AUTOSCALER.OTHER_AUTOSCALER,
            _AUTOSCALER.OTHER_WRITER,
            _AUTOSCALER.NOT_WRITTEN,
            _AUTOSCALER.UNSUPPORTED,
        ),
    ),
    *_reasons(
        "InferenceAutoscaler",
        InferenceAutoscalerCondition.SCALING_LIMITED,
        (True, _AUTOSCALER.TOO_MANY_REPLICAS, "The load needs more replicas than spec.maxReplicas."),
        (False, _AUTOSCALER.WITHIN_BOUNDS, "spec.maxReplicas allows what the load needs."),
    ),
    *_reasons(
        "InferenceClass",
        InferenceClassCondition.ACCEPTED,
        (True, InferenceClassReason.AVAILABLE, "Node pools may use the class."),
        (
            True,
            InferenceClassReason.MEMORY_OVERSTATED,
            "The same, but a device declares more memory than its card publishes: pods may stay Pending.",
        ),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.CLUSTER_READY,
        (True, _CLUSTER.CLUSTER_RUNNING, "The cluster's API server answers."),
        (
            True,
            _CLUSTER.KUBECONFIG_NOT_USED,
            "The cluster's API server answers, and the Secret no longer has a kubeconfig that is accepted.",
        ),
        (
            True,
            _CLUSTER.CREDENTIAL_EXPIRING,
            "The cluster's API server answers, and less than a quarter of the life of a credential is left.",
        ),
        (False, _CLUSTER.WAITING_FOR_CLASSES, "A node pool names an InferenceClass that does not exist."),
        (
            False,
            _CLUSTER.INVALID_NODE_POOL,
            "A pool does not fit the source: its class has no recipe for it, or the source lacks its fabric.",
        ),
        (False, _CLUSTER.PROVISIONING, "The cloud has not created the cluster yet."),
        (
            False,
            _CLUSTER.UNREACHABLE,
            "The cluster's API server does not answer, or rejects the credentials.",
        ),
        alarming=(_CLUSTER.INVALID_NODE_POOL, _CLUSTER.UNREACHABLE),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.BACKEND_READY,
        (True, _CLUSTER.BACKEND_HEALTHY, "Every component that serving needs is installed."),
        (False, _CLUSTER.WAITING_FOR_CLUSTER, "The cluster is not ready."),
        (False, _CLUSTER.INSTALLING, "A component that serving needs is not installed yet."),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.DRAINED,
        (True, _CLUSTER.DRAINED, "A drain has ended: no replica is left on the cluster, or in the pools."),
        (False, _CLUSTER.DRAINING, "Replicas are being replaced elsewhere, or wait for their turn."),
        (
            False,
            _CLUSTER.DRAIN_BLOCKED,
            "A replica that is left has no other place. The message has the deployment and the reason.",
        ),
        (False, _CLUSTER.DRAIN_UNKNOWN, "The replicas or deployments of the fleet cannot be read."),
        (False, _CLUSTER.NOT_DRAINING, "A drain was ended."),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.MUTUAL_TLS,
        (True, _CLUSTER.TLS_REQUIRED, "The cluster's gateway accepts only requests of the fleet's gateway."),
        (
            False,
            _CLUSTER.ROLLING_OUT,
            "Mutual TLS is being turned on or off. The message has the next step and what it waits for.",
        ),
        (
            False,
            _CLUSTER.INVALID_CERTIFICATE,
            "A certificate cannot be issued or renewed. What is in force stays.",
        ),
        (
            False,
            _CLUSTER.UNSUPPORTED_GATEWAY,
            "Modelplane cannot set up mutual TLS on this cluster's gateway. What is in force stays.",
        ),
        alarming=(_CLUSTER.INVALID_CERTIFICATE, _CLUSTER.UNSUPPORTED_GATEWAY),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.CAPACITY_OBSERVED,
        (True, _CLUSTER.OBSERVED, "The message has what is declared and usable of each pool, and why."),
        (
            False,
            _CLUSTER.CAPACITY_STALE,
            "Nodes or devices cannot be counted. The last known capacity is used, or else the declared one.",
        ),
        (
            False,
            _CLUSTER.NOT_OBSERVED,
            "Nothing observes the cluster, as under Crossplane. The declared capacity is used.",
        ),
        alarming=(_CLUSTER.CAPACITY_STALE,),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.CAPACITY_OVERCOMMITTED,
        (
            True,
            _CLUSTER.OVERCOMMITTED,
            "Replicas hold more than is usable. They stay, and pods that restart may stay Pending.",
        ),
        (False, _CLUSTER.WITHIN_CAPACITY, "Replicas hold no more than is usable."),
        (False, _CLUSTER.CAPACITY_STALE, "A replica cannot be read."),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.CAPACITY_DRIFTED,
        (True, _CLUSTER.DRIFTED, "Devices differ from what their InferenceClass declares."),
        (False, _CLUSTER.AS_DECLARED, "Devices are as declared, or none was observed."),
    ),
    *_reasons(
        "InferenceCluster",
        InferenceClusterCondition.REACHABLE,
        (True, _CLUSTER.REACHABLE, "No sign of a failure. Absent while no ModelDeployment has failover."),
        (
            False,
            _CLUSTER.SUSPECT,
            "Its API server or its replicas do not answer. Deployments with failover place no replica there.",
        ),
        (False, _CLUSTER.ISOLATED, "Its API server does not answer, and its replicas do: they stay."),
        (False, _CLUSTER.LOST, "Neither answers. Deployments with failover replace their replicas there."),
        (False, _CLUSTER.RETURNING, "It was lost, and answers again, but not for long enough yet."),
        alarming=(_CLUSTER.LOST,),
    ),
    *(
        row
        for kind in CLUSTER_KINDS
        for row in _reasons(
            kind,
            CloudClusterCondition.PROVISIONED,
            (True, _CLOUD.RESOURCES_READY, "Every managed resource of the cluster is ready."),
            (False, _CLOUD.CREATING, "The cloud has not created every resource yet, or refuses one."),
            (
                False,
                _CLOUD.PROVIDER_NOT_INSTALLED,
                "A kind of managed resources is not installed: the message names its package.",
            ),
            (
                False,
                _CLOUD.INVALID_SETTINGS,
                "The settings contradict each other or the cloud. Nothing changes until they are corrected.",
            ),
            (
                False,
                _CLOUD.WAITING_FOR_ACCOUNT,
                "The provider configuration, of which a value is needed, does not exist or cannot be read.",
            ),
            alarming=(_CLOUD.PROVIDER_NOT_INSTALLED, _CLOUD.INVALID_SETTINGS, _CLOUD.WAITING_FOR_ACCOUNT),
        )
    ),
    *_reasons(
        "InferenceGateway",
        InferenceGatewayCondition.CONTROLLER_READY,
        (True, _GATEWAY.CONTROLLER_HEALTHY, "The gateway accepts requests."),
        (False, _GATEWAY.INSTALLING, "The gateway is not ready yet."),
        (
            False,
            _GATEWAY.INSTALLATION_FAILED,
            "A chart of the gateway cannot be installed. The message has its error.",
        ),
        (
            False,
            _GATEWAY.IGNORED,
            "Only the InferenceGateway named default is used, and this one has another name.",
        ),
        (
            False,
            _GATEWAY.NOT_ENFORCED,
            "Keys are required and the backend does not read ModelKeys. No service is published there.",
        ),
        alarming=(_GATEWAY.IGNORED, _GATEWAY.INSTALLATION_FAILED, _GATEWAY.NOT_ENFORCED),
    ),
    *_reasons(
        "InferenceGateway",
        InferenceGatewayCondition.SECURED,
        (True, _GATEWAY.TLS_ONLY, "Clients use TLS, and plain HTTP is refused."),
        (False, _GATEWAY.INSTALLING, "The gateway is not ready yet."),
        (
            False,
            _GATEWAY.INVALID_CERTIFICATE_REF,
            "A certificate is missing, damaged or expired. Without a former one, no request is served.",
        ),
        (
            False,
            _GATEWAY.UNSUPPORTED_BACKEND,
            "Another gateway than Envoy takes requests: spec.tls is ignored.",
        ),
        alarming=(_GATEWAY.INVALID_CERTIFICATE_REF, _GATEWAY.UNSUPPORTED_BACKEND),
    ),
    *_reasons(
        "InferenceGateway",
        InferenceGatewayCondition.AUTHENTICATED,
        (True, _GATEWAY.API_KEY, "A request needs the key of a ModelKey."),
        (False, _GATEWAY.OPEN, "The gateway serves every request. spec.authentication is absent or None."),
        (
            False,
            _GATEWAY.MODULE_MISSING,
            "Keys are required and Envoy runs without the gateway module, so it serves no request.",
        ),
        (
            False,
            _GATEWAY.NOT_ENFORCED,
            "Keys are required and the backend does not read ModelKeys, so it serves every request.",
        ),
        (False, _GATEWAY.CONFIGURING, "Keys are required, and the gateway does not ask for them yet."),
        alarming=(_GATEWAY.MODULE_MISSING, _GATEWAY.NOT_ENFORCED),
    ),
    *_reasons(
        "InferenceGateway",
        InferenceGatewayCondition.ALIASES_READY,
        (True, _GATEWAY.ALIASES_IN_FORCE, "Clients can use the names in spec.aliases."),
        (
            False,
            _GATEWAY.MODULE_MISSING,
            "Envoy runs without the gateway module, so it ignores spec.aliases.",
        ),
        (
            False,
            _GATEWAY.OPEN,
            "The gateway asks for no key, so it ignores aliases whose namespaces do not include *.",
        ),
        alarming=(_GATEWAY.MODULE_MISSING, _GATEWAY.OPEN),
    ),
    *_reasons(
        "InferenceGateway",
        InferenceGatewayCondition.SETTINGS_SUPPORTED,
        (True, _GATEWAY.SUPPORTED, "The backend has every setting. Stated only if one was ignored before."),
        (False, _GATEWAY.UNSUPPORTED_BACKEND, "The backend ignores settings, which the message names."),
        alarming=(_GATEWAY.UNSUPPORTED_BACKEND,),
    ),
    *_reasons(
        "ModelCache",
        ModelCacheCondition.CLUSTERS_MATCHED,
        (True, _CACHE.MATCHED, "At least one cluster is selected and has storage for caches."),
        (False, _CACHE.NO_CLUSTERS, "No cluster is selected and has storage for caches."),
    ),
    *_reasons(
        "ModelCache",
        ModelCacheCondition.ARTIFACT_READY,
        (True, _CACHE.STAGED, "Every matched cluster has the weights."),
        (False, _CACHE.NO_CLUSTERS, "There is no cluster to stage the weights on."),
        (False, _CACHE.AUTH_SECRET_MISSING, "The token's Secret, or its key, does not exist or is empty."),
        (False, _CACHE.FAILED, "Staging failed on at least one cluster."),
        (False, _CACHE.PARTIAL, "Some clusters have the weights."),
        (False, _CACHE.HYDRATING, "No cluster has the weights yet."),
        alarming=(_CACHE.AUTH_SECRET_MISSING, _CACHE.FAILED),
    ),
    *_reasons(
        "ModelDeployment",
        ModelDeploymentCondition.REPLICAS_SCHEDULED,
        (True, _DEPLOYMENT.REPLICAS_CREATED, "Every desired replica has a cluster."),
        (False, _DEPLOYMENT.NO_CLUSTERS, "The fleet has no InferenceCluster."),
        (
            False,
            _DEPLOYMENT.INVALID_NODE_SELECTOR,
            "A device selector is not valid CEL. Existing replicas stay as they are.",
        ),
        (
            False,
            _DEPLOYMENT.INSUFFICIENT_CAPACITY,
            "Fewer replicas than desired have a cluster. The message has both counts and the cause.",
        ),
        (
            False,
            _DEPLOYMENT.QUOTA_EXCEEDED,
            "The same, and a cluster has room for one more that the DeviceQuota of the namespace refuses.",
        ),
        (
            False,
            _DEPLOYMENT.QUOTA_UNKNOWN,
            "The DeviceQuota of the namespace is not certain, so no new replica is placed.",
        ),
        (
            False,
            _DEPLOYMENT.PRIORITY_REFUSED,
            "The DeviceQuota of the namespace does not allow the PriorityClass, or it does not exist.",
        ),
        (
            False,
            _DEPLOYMENT.PREEMPTED,
            "Replicas are withdrawn, because a deployment of higher priority takes their devices.",
        ),
        (False, _DEPLOYMENT.SCHEDULING, "Replicas have a cluster and are being created."),
        alarming=(
            _DEPLOYMENT.NO_CLUSTERS,
            _DEPLOYMENT.INVALID_NODE_SELECTOR,
            _DEPLOYMENT.INSUFFICIENT_CAPACITY,
            _DEPLOYMENT.QUOTA_EXCEEDED,
            _DEPLOYMENT.QUOTA_UNKNOWN,
            _DEPLOYMENT.PRIORITY_REFUSED,
            _DEPLOYMENT.PREEMPTED,
        ),
    ),
    *_reasons(
        "ModelDeployment",
        ModelDeploymentCondition.REPLICAS_READY,
        (True, _DEPLOYMENT.ALL_REPLICAS_READY, "Every desired replica serves."),
        (False, _DEPLOYMENT.NO_REPLICAS_SCHEDULED, "No replica has a cluster."),
        (False, _DEPLOYMENT.MODEL_STARTING, "At least one replica does not serve yet."),
        (
            False,
            _DEPLOYMENT.CLUSTER_UNREACHABLE,
            "A replica's cluster does not answer, so the state of its replicas is unknown.",
        ),
        (False, _DEPLOYMENT.UPDATING, "Replicas serve, and some do not have the current template yet."),
        alarming=(_DEPLOYMENT.CLUSTER_UNREACHABLE,),
    ),
    *_reasons(
        "ModelDeployment",
        ModelDeploymentCondition.MODEL_CACHE_RESOLVED,
        (True, _DEPLOYMENT.MODEL_CACHE_RESOLVED, "The named ModelCache exists."),
        (False, _DEPLOYMENT.MODEL_CACHE_UNRESOLVED, "The ModelCache has not been looked up yet."),
        (False, _DEPLOYMENT.MODEL_CACHE_NOT_FOUND, "The namespace has no ModelCache of that name."),
        alarming=(_DEPLOYMENT.MODEL_CACHE_NOT_FOUND,),
    ),
    *_reasons(
        "ModelDeployment",
        ModelDeploymentCondition.FAILOVER,
        (True, _DEPLOYMENT.WATCHING, "Replicas are replaced if their cluster is lost."),
        (True, _DEPLOYMENT.REPLACING, "Replicas on a lost cluster are being replaced, or have been."),
        (True, _DEPLOYMENT.FAILOVER_OFF, "The deployment does not ask for failover any more."),
        (
            False,
            _DEPLOYMENT.FAILOVER_PAUSED,
            "Clusters are lost, and nothing is replaced: the fault may be the control plane's own.",
        ),
        (
            False,
            _DEPLOYMENT.NOT_SUPPORTED,
            "Crossplane reconciles, and watches no clusters: nothing is replaced.",
        ),
        alarming=(_DEPLOYMENT.FAILOVER_PAUSED, _DEPLOYMENT.NOT_SUPPORTED),
    ),
    *_reasons(
        "ModelDeployment",
        ModelDeploymentCondition.PROGRESSING,
        (True, _DEPLOYMENT.ROLLOUT_COMPLETE, "Every replica has got the current template and served."),
        (
            True,
            _DEPLOYMENT.REPLICAS_UPDATING,
            "Replicas get the current template. The message has the counts and what the rollout waits for.",
        ),
        (False, _DEPLOYMENT.ROLLOUT_PAUSED, "`spec.rollout.paused` is true."),
        (
            False,
            _DEPLOYMENT.PROGRESS_DEADLINE_EXCEEDED,
            "No progress for `progressDeadlineSeconds`. The message has the replica, its cluster and why.",
        ),
        alarming=(_DEPLOYMENT.PROGRESS_DEADLINE_EXCEEDED,),
    ),
    *_reasons(
        "ModelEndpoint",
        ModelEndpointCondition.ROUTING_READY,
        (True, _ENDPOINT.BACKEND_CONFIGURED, "The gateway can route to it."),
        (
            False,
            _ENDPOINT.WAITING_FOR_BACKEND,
            "Its backend at the gateway is being created, or the gateway is not known yet.",
        ),
        (False, _ENDPOINT.INVALID_URL, "The URL has no host, or a port that is not a number."),
        (
            False,
            _ENDPOINT.DESTINATION_REFUSED,
            "The URL leads to the gateway, its machine, a cloud's metadata service or a denied address.",
        ),
        (
            False,
            _ENDPOINT.UNSUPPORTED,
            "It has a model or a credential, and the gateway can set neither. It gets no requests.",
        ),
        alarming=(_ENDPOINT.INVALID_URL, _ENDPOINT.DESTINATION_REFUSED, _ENDPOINT.UNSUPPORTED),
    ),
    *_reasons(
        "ModelEndpoint",
        ModelEndpointCondition.CREDENTIAL_READY,
        (True, _ENDPOINT.IN_FORCE, "The gateway sends the credential of the Secret that the endpoint names."),
        (
            False,
            _ENDPOINT.SECRET_REFUSED,
            "The Secret is missing, or does not permit this use. The endpoint gets no requests.",
        ),
        (
            False,
            _ENDPOINT.SECRET_UNREADABLE,
            "The Secret cannot be read. The credential that it gave before stays in force.",
        ),
        alarming=(_ENDPOINT.SECRET_REFUSED, _ENDPOINT.SECRET_UNREADABLE),
    ),
    *_reasons(
        "ModelKey",
        ModelKeyCondition.GRANTED,
        (True, _KEY.WITHIN_GRANT, "The InferenceGateway grants the namespace all that the key names."),
        (False, _KEY.NO_GRANT, "The InferenceGateway grants nothing to the namespace."),
        (False, _KEY.SERVICE_NOT_GRANTED, "The grant lacks a service that the key names. The others count."),
        (False, _KEY.REGION_NOT_GRANTED, "The grant lacks a region that the key names. The others count."),
        alarming=(_KEY.NO_GRANT, _KEY.SERVICE_NOT_GRANTED, _KEY.REGION_NOT_GRANTED),
    ),
    *_reasons(
        "ModelKey",
        ModelKeyCondition.ENFORCED,
        (True, _KEY.IN_FORCE, "The gateway asks for a key, and this one is valid."),
        (False, _KEY.GATEWAY_OPEN, "The gateway asks for no key: requests without one are served too."),
        (
            False,
            _KEY.GATEWAY_NOT_READY,
            "The gateway is to ask for keys and does not. Its own condition has the cause.",
        ),
        (False, _KEY.CONFIGURING, "The gateway does not have the key, or its last edit, yet."),
        (
            False,
            _KEY.NOT_IN_FORCE,
            "The gateway refuses the key, one of its hashes, or its last edit. The message has the cause.",
        ),
        (
            False,
            _KEY.NOT_REPORTED,
            "The gateway asks for keys. Under Crossplane, nothing reports whether it has this one.",
        ),
        alarming=(_KEY.NOT_IN_FORCE,),
    ),
    *_reasons(
        "ModelKey",
        ModelKeyCondition.LIMITED_GLOBALLY,
        (True, _KEY.RATE_LIMIT_SERVICE, "The rate limit service counts. Only for keys with Global limits."),
        (
            False,
            _KEY.NO_RATE_LIMIT_SERVICE,
            "The InferenceGateway names no rate limit service. Each gateway enforces its part of the limits.",
        ),
        (
            False,
            _KEY.TYPE_NOT_GRANTED,
            "The grant allows no Global limits. Each gateway enforces its part of the limits.",
        ),
        alarming=(_KEY.NO_RATE_LIMIT_SERVICE, _KEY.TYPE_NOT_GRANTED),
    ),
    *_reasons(
        "ModelKey",
        ModelKeyCondition.WITHIN_BUDGET,
        (True, _KEY.AVAILABLE, "No budget of the key or its namespace is spent. Only with a budget."),
        (False, _KEY.SPENT, "The key's budget is spent. The message has the time at which it opens again."),
        (False, _KEY.NAMESPACE_SPENT, "The budget of all keys of the namespace is spent."),
        (False, _KEY.NO_PRICES, "The InferenceGateway has no prices, so budgets in money have no effect."),
        (False, _KEY.NOT_MEASURED, "The usage of keys is not known. What was refused stays refused."),
        alarming=(_KEY.NO_PRICES,),
    ),
    *_reasons(
        "ModelReplica",
        ModelReplicaCondition.MODEL_ACCEPTED,
        (True, _REPLICA.ACCEPTED, "The cluster has the workload of every engine."),
        (
            False,
            _REPLICA.WAITING_FOR_CLUSTER,
            "The cluster does not exist, or its status lacks values that the replica needs.",
        ),
        (
            False,
            _REPLICA.CLUSTER_UNREACHABLE,
            "The cluster's API server does not answer. Its workloads keep running.",
        ),
        (False, _REPLICA.WAITING_FOR_CACHE, "The ModelCache has not staged the weights on the cluster yet."),
        (False, _REPLICA.DEPLOYING, "At least one workload is not on the cluster yet."),
        (True, _REPLICA.UPDATING, "It serves, and not every copy of its engines has its last edit."),
        (False, _REPLICA.UNSUPPORTED_TOPOLOGY, "The cluster cannot run an engine of this topology."),
        (
            False,
            _REPLICA.NAMESPACE_NOT_LABELED,
            "The namespace on the cluster is not Modelplane's: nothing is written. Existing objects stay.",
        ),
        (
            False,
            _REPLICA.REFERENCE_NOT_FOUND,
            "Pods name a Secret or ConfigMap that is not in the replica's namespace.",
        ),
        (
            False,
            _REPLICA.POD_NOT_ACCEPTED,
            "Pods have a label, an annotation or a variable that the cluster does not accept.",
        ),
        alarming=(
            _REPLICA.UNSUPPORTED_TOPOLOGY,
            _REPLICA.CLUSTER_UNREACHABLE,
            _REPLICA.NAMESPACE_NOT_LABELED,
            _REPLICA.REFERENCE_NOT_FOUND,
            _REPLICA.POD_NOT_ACCEPTED,
        ),
    ),
    *_reasons(
        "ModelReplica",
        ModelReplicaCondition.MODEL_READY,
        (True, _REPLICA.SERVING, "Every engine accepts requests."),
        (False, _REPLICA.WAITING_FOR_MODEL, "The cluster has not accepted the model."),
        (False, _REPLICA.MODEL_STARTING, "At least one engine does not accept requests yet."),
    ),
    *_reasons(
        "ModelReplica",
        ModelReplicaCondition.ANNOUNCED,
        (
            True,
            _REPLICA.ENDPOINT_CREATED,
            "The replica has a ModelEndpoint of its name, to which services route.",
        ),
        (False, _REPLICA.NOT_SERVING, "The replica does not serve, so it has no endpoint."),
        (False, _REPLICA.NO_ADDRESS, "The replica serves, but its cluster's gateway has no address yet."),
        (False, _REPLICA.DRAINING, "The replica is about to be deleted, so its endpoint was removed."),
    ),
    *_reasons(
        "ModelService",
        ModelServiceCondition.ENDPOINTS_RESOLVED,
        (True, _SERVICE.RESOLVED, "At least one endpoint is selected."),
        (False, _SERVICE.NO_ENDPOINTS, "No endpoint of the namespace is selected."),
        (
            False,
            _SERVICE.OUTSIDE_REGIONS,
            "Every selected endpoint is outside the regions that its ModelDeployments allow.",
        ),
        alarming=(_SERVICE.NO_ENDPOINTS, _SERVICE.OUTSIDE_REGIONS),
    ),
    *_reasons(
        "ModelService",
        ModelServiceCondition.WITHIN_BUDGET,
        (True, _SERVICE.AVAILABLE, "No budget of spec.endpoints is spent. Only with a budget."),
        (False, _SERVICE.SPENT, "A budget is spent: the endpoints of its entry get no requests."),
        (
            False,
            _SERVICE.NO_PRICES,
            "The InferenceGateway has no prices, so budgets in money have no effect.",
        ),
        (False, _SERVICE.NOT_MEASURED, "It is not known what the endpoints have used."),
        alarming=(_SERVICE.NO_PRICES,),
    ),
    *_reasons(
        "ModelService",
        ModelServiceCondition.ROUTING_READY,
        (True, _SERVICE.ROUTE_CONFIGURED, "The gateway routes to at least one endpoint."),
        (
            False,
            _SERVICE.CONFIGURING,
            "No endpoint can be routed to, or the gateway has not accepted the route yet.",
        ),
        (
            False,
            _SERVICE.WAITING_FOR_GATEWAY,
            "The InferenceGateway has no address, or its status has no backend yet.",
        ),
        (
            False,
            _SERVICE.TOO_MANY_ENDPOINTS,
            "More than 1,024 endpoints are selected. The rest get no traffic.",
        ),
        (False, _SERVICE.PATH_TAKEN, "The namespace is v1, whose path is the URL for all models."),
        (
            False,
            _SERVICE.ENDPOINTS_REFUSED,
            "The gateway cannot set what the endpoints need, so none of them gets requests.",
        ),
        (False, _SERVICE.TIERS_WITHOUT_FAILOVER, "The gateway has no tiers: the first gets all traffic."),
        (
            False,
            _SERVICE.HOLD_UNSUPPORTED,
            "The gateway cannot hold requests: without an endpoint, they get 503 at once.",
        ),
        (
            False,
            _SERVICE.BALANCING_UNSUPPORTED,
            "The gateway routes by weight and tier, without the balancing that the service asks for.",
        ),
        alarming=(
            *(_SERVICE.TOO_MANY_ENDPOINTS, _SERVICE.PATH_TAKEN, _SERVICE.ENDPOINTS_REFUSED),
            *(_SERVICE.TIERS_WITHOUT_FAILOVER, _SERVICE.HOLD_UNSUPPORTED, _SERVICE.BALANCING_UNSUPPORTED),
        ),
    ),
    *_reasons(
        "ModelService",
        ModelServiceCondition.SETTINGS_SUPPORTED,
        (True, _SERVICE.SUPPORTED, "The gateway has every setting. Stated only if one was ignored before."),
        (False, _SERVICE.UNSUPPORTED_BACKEND, "The gateway ignores settings, which the message names."),
        alarming=(_SERVICE.UNSUPPORTED_BACKEND,),
    ),
    *_reasons(
        "ServingStack",
        ServingStackCondition.INSTALLED,
        (True, _STACK.COMPONENTS_READY, "Every component is ready."),
        (
            True,
            _STACK.DEGRADED,
            "Serving has what it needs. The message names the components that are not ready.",
        ),
        (False, _STACK.INSTALLING, "A component that serving needs is not ready yet."),
        (
            False,
            _STACK.COMPONENT_FAILED,
            "A component that serving needs cannot be installed: the message has the error of its chart.",
        ),
        (
            False,
            _STACK.NO_CLUSTER,
            "The stack names no InferenceCluster, or is not in the system's namespace. Nothing is installed.",
        ),
        alarming=(_STACK.COMPONENT_FAILED, _STACK.NO_CLUSTER),
    ),
)

ALARMING = frozenset(str(row.reason) for row in DOCUMENTED if row.alarming)
"""Reasons that need an operator: their events are warnings."""
