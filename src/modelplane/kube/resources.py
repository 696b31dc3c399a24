"""Which REST path serves which kind.

A ``Resource`` is what discovery would answer; the kinds that Modelplane reads
and writes are known beforehand, so nothing is discovered at run time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import Kind, kind_of
from modelplane.api.meta import Model
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.compose import workload_kinds
from modelplane.compose.workload_kinds import WorkloadKind

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


def _of(kind: Kind | WorkloadKind, name: str) -> Resource:
    return Resource(kind.group, kind.version, name, kind.plural, kind.namespaced)


def _ours(type_: type[Model]) -> Resource:
    kind = kind_of(type_)
    return _of(kind, kind.name)


def _written(api_version: str, kind: str) -> Resource:
    """Return a kind that is written to clusters."""
    return _of(workload_kinds.ROWS[api_version, kind], kind)


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
DEPLOYMENTS = _written("apps/v1", "Deployment")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
GATEWAY_CLASSES = Resource("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", False)
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
HTTP_ROUTES = _written("gateway.networking.k8s.io/v1", "HTTPRoute")
INFERENCE_POOLS = _written("inference.networking.k8s.io/v1", "InferencePool")
JOBS = _written("batch/v1", "Job")
LEADER_WORKER_SETS = _written("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _written("v1", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
POD_DISRUPTION_BUDGETS = _written("policy/v1", "PodDisruptionBudget")
PODS = Resource("", "v1", "Pod", "pods")
CONFIG_MAPS = _written("v1", "ConfigMap")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = _written("resource.k8s.io/v1", "ResourceClaimTemplate")
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
ROLES = _written("rbac.authorization.k8s.io/v1", "Role")
ROLE_BINDINGS = _written("rbac.authorization.k8s.io/v1", "RoleBinding")
SECRETS = _written("v1", "Secret")
SERVICE_ACCOUNTS = _written("v1", "ServiceAccount")
SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
SERVICES = _written("v1", "Service")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)

_ALL = tuple(value for value in list(globals().values()) if isinstance(value, Resource))
_BY_KIND = {(resource.api_version, resource.kind): resource for resource in _ALL}


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    """Return the resource that serves a manifest; ``KeyError`` names an unknown kind."""
    key = (manifest.get("apiVersion", ""), manifest.get("kind", ""))
    if key in _BY_KIND:
        return _BY_KIND[key]
    if key in workload_kinds.ROWS:
        return _written(*key)
    raise KeyError(f"kind {key[1]!r} of {key[0]!r} is not one that Modelplane writes")


def resource_for(api_version: str, kind: str) -> Resource:
    """Return the resource for a group, version and kind that Modelplane knows."""
    return resource_of({"apiVersion": api_version, "kind": kind})
