"""Label and annotation keys that Modelplane sets or reads.

Keys under ``modelplane.ai/`` are Modelplane's; the prefix of any other key names its owner.
"""

PREFIX = "modelplane.ai/"
"""Reserved: users cannot set such keys on objects that Modelplane makes."""

CROSSPLANE_PREFIX = "crossplane.io/"
"""Prefix of the keys that Crossplane sets on everything that it composes."""

EXTERNAL_NAME = f"{CROSSPLANE_PREFIX}external-name"
"""Annotation of managed resources and Helm releases: the name in the cloud or on the cluster (Crossplane)."""

DEPLOYMENT = "modelplane.ai/deployment"
"""On ModelReplicas and ModelEndpoints: the ModelDeployment they belong to."""

CLUSTER = "modelplane.ai/cluster"
"""On ModelReplicas and ModelEndpoints: the InferenceCluster they are on."""

REGION = "modelplane.ai/region"
"""On InferenceClusters: the region they are in, by the name that the platform gives it."""

REPLICA_INDEX = "modelplane.ai/replica-index"
"""On ModelReplicas and ModelEndpoints: which of the deployment's replicas on that cluster, from 0."""

REVISION = "modelplane.ai/revision"
"""On ModelReplicas: hash of the template that they were made from."""

SURGE = "modelplane.ai/surge"
"""Annotation of ModelReplicas: "true" on one that a rollout placed in addition, and removes at its end."""

CANARY_WEIGHT = "modelplane.ai/canary-weight"
"""Annotation of ModelReplicas and ModelEndpoints: percentage of a deployment's requests that those of the new
revision get together, "0" after an abort. Absent or empty: they are like all others."""

WITHDRAWN = "0"
"""Value of the former for those that get no requests."""

PROMOTED = "modelplane.ai/canary-promoted"
"""Annotation of ModelDeployments: revision that needs no further step of a canary."""

RETRIED = "modelplane.ai/canary-retried"
"""Annotation of ModelDeployments: time of the abort after which the canary begins again."""

SPEC_HASH = "modelplane.ai/spec-hash"
"""Annotation of an engine's workload: hash of the spec that it was given."""

SERVING = "modelplane.ai/serving"
"""On pods that take requests: the ModelReplica."""

WORKLOAD = "modelplane.ai/workload"
"""On every pod of an engine, and of an endpoint picker: its workload."""

LWS_ROLE = "modelplane.ai/lws-role"
"""On the leader pods of a gang: ``leader``."""

POOL = "modelplane.ai/pool"
"""On nodes: the node pool. On an Existing cluster its operator sets it."""

GPU = "modelplane.ai/gpu"
"""On nodes of GPU pools: the accelerator type."""

MODEL_CACHE = "modelplane.ai/modelcache"
"""On the workloads that stage a ModelCache: its name."""

RELEASE = "modelplane.ai/release"
"""On the gateway's Helm releases: which one."""

RESOURCE = "modelplane.ai/resource"
"""On parts of a serving stack: which one."""

USAGE = "modelplane.ai/usage"
"""On ConfigMaps with the sums of a gateway: the InferenceGateway."""

FABRIC = "modelplane.ai/fabric"
"""On AWS EFA groups and Nebius GPU clusters: the fabric."""

MANAGED_BY = "modelplane.ai/managed-by"
"""On everything that Modelplane applies to an inference cluster: ``modelplane``."""

OWNER_KIND = "modelplane.ai/owner-kind"
"""On everything applied to an inference cluster: kind of the object it is made for."""

OWNER_NAMESPACE = "modelplane.ai/owner-namespace"
"""On everything applied to an inference cluster: namespace of the object it is made for."""

OWNER_NAME = "modelplane.ai/owner-name"
"""On everything applied to an inference cluster: name of the object it is made for."""

OWNER_UID = "modelplane.ai/owner-uid"
"""On everything applied to an inference cluster: uid of the object it is made for; used to find it."""

FORMER_UIDS = "modelplane.ai/former-uids"
"""Annotation of restored objects: the uids that they had before, the last first, between commas."""

RELEASE_OWNER = "modelplane.ai/release-owner"
"""On Helm's records of releases: uid of the object it is made for. They have no other owner."""

RELEASE_OWNER_NAME = "modelplane.ai/release-owner-name"
"""On Helm's records of releases: a hash of kind, namespace and name of the object it is made for."""

HELM_RELEASES = "modelplane.ai/helm-releases"
"""Annotation of an object that has Helm releases: cluster, namespace and name of each, between commas."""

CHILD = "modelplane.ai/child"
"""On everything applied to an inference cluster: the key of this child among its owner's."""

GATEWAY = "modelplane.ai/gateway"
"""On ConfigMaps of the system namespace: the InferenceGateway whose proxies read them."""

UNSCHEDULABLE = "modelplane.ai/unschedulable"
"""Key of the taint of a cordoned cluster or pool."""

DRAIN = "modelplane.ai/drain"
"""Key of the taint of a cluster or pool that is being drained."""

EVICTION_NOTICE = "modelplane.ai/eviction-notice"
"""Key of the taint, or of the annotation, of a node that is about to be taken back."""

DRAINING = "modelplane.ai/draining"
"""Annotation of ModelEndpoints that services do not route to, because they are about to be deleted."""

NOT_SERVING = "not-serving"
"""Value of the same annotation while the replica of an endpoint does not serve: Crossplane only."""

SERVED_MODEL = "modelplane.ai/served-model"
"""Annotation of the ModelEndpoints of replicas: the name by which the engine knows its model."""

SERVICE_NAME = "kubernetes.io/service-name"
"""On EndpointSlices: the Service they are for (Kubernetes)."""

LLM_D_ROLE = "llm-d.ai/role"
"""On PrefillDecode pods: ``prefill`` or ``decode``, which the endpoint picker filters by (llm-d)."""

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
"""On the pods of a LeaderWorkerSet: its name (LeaderWorkerSet)."""

LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
"""On the pods of a LeaderWorkerSet: the index of their group (LeaderWorkerSet)."""

LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""On the pods of a LeaderWorkerSet: the index within their group, ``0`` for the leader (LeaderWorkerSet)."""

KSERVE_SERVICE = "app.kubernetes.io/name"
"""On the pods of an LLMInferenceService: its name (KServe)."""

KSERVE_COMPONENT = "kserve.io/component"
"""On the pods of an LLMInferenceService that take requests: ``workload`` (KServe)."""

KSERVE_PART = "app.kubernetes.io/part-of"
"""On the pods of an LLMInferenceService: ``llminferenceservice`` (KServe)."""

LLM_D_ENGINE = "llm-d.ai/engine-type"
"""On pods of other engines than vLLM: whose names of metrics the endpoint picker reads (llm-d)."""

LLM_D_SERVING = "llm-d.ai/inference-serving"
"""On PrefillDecode pods: ``true`` (llm-d)."""

APPLIED = "modelplane.ai/applied"
"""Annotation of everything that is applied: a hash of the manifest, to detect a change."""

UNVERIFIED = "modelplane.ai/unverified"
"""Annotation of InferenceClasses from the catalogue: the figures that were never confirmed."""

CLUSTER_UID = "modelplane.ai/cluster-uid"
"""Annotation of InferenceClusters that `modelplane cluster register` made: the uid of the cluster's namespace
kube-system."""
