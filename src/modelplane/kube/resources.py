"""Which REST path serves which kind.

A ``Resource`` is what discovery would answer; the kinds that Modelplane reads
and writes are known beforehand, and only others are discovered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.compose import workload_kinds
from modelplane.compose.workload_kinds import ROWS, WorkloadKind

Object = dict[str, Any]
"""A Kubernetes object in its wire form, decoded from JSON."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as its API server serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects, such as ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Return the REST path of the collection, or of one object of it."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None:
            if not self.namespaced:
                raise ValueError(f"{self.kind} is cluster-scoped: it has no namespace {namespace!r}")
            parts += ["namespaces", namespace]
        elif self.namespaced and name is not None:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _ours(type_: type[Model]) -> Resource:
    kind = kind_of(type_)
    return Resource(kind.group, kind.version, kind.name, kind.plural, kind.namespaced)


def _written(row: WorkloadKind) -> Resource:
    return Resource(row.group, row.version, row.kind, row.plural, row.namespaced)


INFERENCE_CLASSES = _ours(InferenceClass)
INFERENCE_CLUSTERS = _ours(InferenceCluster)
INFERENCE_GATEWAYS = _ours(InferenceGateway)
MODEL_CACHES = _ours(ModelCache)
MODEL_DEPLOYMENTS = _ours(ModelDeployment)
MODEL_ENDPOINTS = _ours(ModelEndpoint)
MODEL_REPLICAS = _ours(ModelReplica)
MODEL_SERVICES = _ours(ModelService)

BACKEND_TLS_POLICIES = Resource("gateway.networking.k8s.io", "v1", "BackendTLSPolicy", "backendtlspolicies")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
DEPLOYMENTS = _written(workload_kinds.DEPLOYMENT)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
GATEWAY_CLASSES = Resource("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", False)
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
HTTP_ROUTES = _written(ROWS["gateway.networking.k8s.io/v1", "HTTPRoute"])
INFERENCE_POOLS = _written(workload_kinds.INFERENCE_POOL)
JOBS = _written(ROWS["batch/v1", "Job"])
LEADER_WORKER_SETS = _written(workload_kinds.LEADER_WORKER_SET)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _written(ROWS["v1", "PersistentVolumeClaim"])
PERSISTENT_VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
POD_DISRUPTION_BUDGETS = _written(ROWS["policy/v1", "PodDisruptionBudget"])
PODS = Resource("", "v1", "Pod", "pods")
CONFIG_MAPS = _written(ROWS["v1", "ConfigMap"])
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = _written(ROWS["resource.k8s.io/v1", "ResourceClaimTemplate"])
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
ROLES = _written(ROWS["rbac.authorization.k8s.io/v1", "Role"])
ROLE_BINDINGS = _written(ROWS["rbac.authorization.k8s.io/v1", "RoleBinding"])
SECRETS = _written(ROWS["v1", "Secret"])
SERVICE_ACCOUNTS = _written(ROWS["v1", "ServiceAccount"])
SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
SERVICES = _written(ROWS["v1", "Service"])
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)

_ALL = tuple(value for value in list(globals().values()) if isinstance(value, Resource))
_BY_KIND = {(resource.api_version, resource.kind): resource for resource in _ALL}


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    """Return the resource that serves a manifest; ``KeyError`` names an unknown kind."""
    return resource_for(manifest.get("apiVersion", ""), manifest.get("kind", ""))


def resource_for(api_version: str, kind: str) -> Resource:
    """Return the resource of a kind; ``KeyError`` names one that is not known beforehand."""
    if resource := known(api_version, kind):
        return resource
    raise KeyError(f"kind {kind!r} of {api_version!r} is not one that Modelplane writes")


def known(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a kind that is known beforehand."""
    if resource := _BY_KIND.get((api_version, kind)):
        return resource
    row = ROWS.get((api_version, kind))
    return _written(row) if row else None
