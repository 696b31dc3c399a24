"""Resources: the REST path that serves a kind, and discovery of the kinds that a server serves.

A ``Resource`` is an answer of the discovery API. Kinds of Kubernetes and of common extensions are listed
here, so that they need not be discovered.

A 404 alone does not mean that a kind is missing: a proxy or load balancer in front of a server also answers
with one.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.kube import errors

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

    def build_path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
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


CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
DEVICE_TAINT_RULES = Resource("resource.k8s.io", "v1alpha3", "DeviceTaintRule", "devicetaintrules", False)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
GATEWAY_CLASSES = Resource("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", False)
GATEWAYS = Resource("gateway.networking.k8s.io", "v1", "Gateway", "gateways")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
INFERENCE_POOLS = Resource("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")
JOBS = Resource("batch", "v1", "Job", "jobs")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PERSISTENT_VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PODS = Resource("", "v1", "Pod", "pods")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
SECRETS = Resource("", "v1", "Secret", "secrets")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SERVICES = Resource("", "v1", "Service", "services")
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    False,
)

# Kinds of objects that are applied as manifests, and not read.
_WRITTEN_ONLY = (
    Resource("gateway.networking.k8s.io", "v1", "BackendTLSPolicy", "backendtlspolicies"),
    Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
    Resource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False),
)

_BY_KIND = {
    (value.api_version, value.kind): value
    for value in (*globals().values(), *_WRITTEN_ONLY)
    if isinstance(value, Resource)
}


def find_known(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a kind that is listed here."""
    return _BY_KIND.get((api_version, kind))


Get = Callable[[str], Awaitable[Object]]
"""Return what the server answers at a path."""

Known = Callable[[str, str], Resource | None]
"""Return the resource of an ``apiVersion`` and a kind that need not be discovered."""


class Discovery:
    """The kinds of one API server: those known beforehand, and others as it names them."""

    def __init__(self, get: Get, known: Known) -> None:
        self._get = get
        self._known = known
        self._found: dict[tuple[str, str], Resource] = {}

    async def find_resource(self, manifest: Mapping[str, Any]) -> Resource:
        """Return the resource that serves a manifest; a found resource is cached.

        Raises ``NotInstalled`` if the server has no such kind, ``KubernetesError`` without a clear answer.
        """
        api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
        if resource := self._known(api_version, kind) or self._found.get((api_version, kind)):
            return resource
        for served in await self.list_served(api_version):
            self._found[api_version, served.kind] = served
        if (api_version, kind) not in self._found:
            raise errors.NotInstalled(kind, api_version)
        return self._found[api_version, kind]

    async def list_served(self, api_version: str) -> tuple[Resource, ...]:
        """Return the kinds of one group and version."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            answer = await self._get(path)
        except errors.NotFound as error:
            groups = await self._get("/apis")
            listed = (
                entry["groupVersion"] for group_ in groups.get("groups") or () for entry in group_["versions"]
            )
            if groups.get("kind") != "APIGroupList" or api_version in listed:
                raise errors.ApiError(404, "", f"cannot tell whether there is {path}") from error
            return ()
        return tuple(
            Resource(group, version, resource["kind"], resource["name"], resource["namespaced"])
            for resource in answer.get("resources") or ()
            if "/" not in resource["name"]  # a subresource, which may have the kind of another resource
        )
