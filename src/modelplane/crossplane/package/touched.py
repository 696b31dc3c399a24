"""Kinds that the function uses beside Modelplane's own, and the source of Crossplane's permission.

One table: the activation policy and the permissions follow from it.

Crossplane itself writes and reads the objects that a function composes or requires. Its chart grants the few
kinds of its package manager; its RBAC manager grants the kinds of XRDs and providers; the rest needs a
ClusterRole with the label ``rbac.crossplane.io/aggregate-to-crossplane``. Usages belong to neither and are
always granted: granting twice does no harm.
"""

from dataclasses import dataclass
from enum import StrEnum


class Grant(StrEnum):
    """The source of Crossplane's permission for a kind."""

    CHART = "Crossplane's chart"
    PROVIDER = "the RBAC manager, because a provider brings it"
    PREREQUISITES = "Modelplane's prerequisites"


@dataclass(frozen=True, slots=True)
class Touched:
    """A kind on the control plane that the function composes or requires."""

    api_version: str
    kind: str
    plural: str
    grant: Grant
    why: str
    managed: bool = False
    """True if it is a managed resource, which is served only once a policy activates it."""
    read_only: bool = False

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def definition(self) -> str:
        """The name of its definition."""
        return f"{self.plural}.{self.group}"


_APPS = "apps/v1"
_DISCOVERY = "discovery.k8s.io/v1"
_EXTENSIONS = "apiextensions.k8s.io/v1"
_GATEWAY = "gateway.networking.k8s.io/v1"
_ENVOY_GATEWAY = "gateway.envoyproxy.io/v1alpha1"
_HELM = "helm.m.crossplane.io/v1beta1"
_KUBERNETES = "kubernetes.m.crossplane.io/v1alpha1"
_NETWORKING = "networking.k8s.io/v1"
_POLICY = "policy/v1"
_SCHEDULING = "scheduling.k8s.io/v1"
_PROTECTION = "protection.crossplane.io/v1beta1"

COMPOSED = (
    Touched(
        _KUBERNETES,
        "Object",
        "objects",
        Grant.PROVIDER,
        "whatever runs on an inference cluster",
        managed=True,
    ),
    Touched(
        _KUBERNETES,
        "ClusterProviderConfig",
        "clusterproviderconfigs",
        Grant.PROVIDER,
        "how an inference cluster is reached",
    ),
    Touched(
        _KUBERNETES,
        "ProviderConfig",
        "providerconfigs",
        Grant.PROVIDER,
        "how a serving stack reaches its cluster, until it is gone",
    ),
    Touched(_HELM, "Release", "releases", Grant.PROVIDER, "what serving needs on a cluster", managed=True),
    Touched(
        _HELM,
        "ProviderConfig",
        "providerconfigs",
        Grant.PROVIDER,
        "how charts are installed on a cluster",
    ),
    Touched(
        _PROTECTION,
        "ClusterUsage",
        "clusterusages",
        Grant.PREREQUISITES,
        "a class or cluster in use is not deleted",
    ),
    Touched(_PROTECTION, "Usage", "usages", Grant.PREREQUISITES, "a cache in use is not deleted"),
    Touched(_GATEWAY, "HTTPRoute", "httproutes", Grant.PREREQUISITES, "the path of a ModelService"),
    Touched(
        _GATEWAY, "Gateway", "gateways", Grant.PREREQUISITES, "the gateway that is installed, and its address"
    ),
    Touched(
        _GATEWAY, "GatewayClass", "gatewayclasses", Grant.PREREQUISITES, "the class of an installed gateway"
    ),
    Touched(
        _ENVOY_GATEWAY,
        "BackendTrafficPolicy",
        "backendtrafficpolicies",
        Grant.PREREQUISITES,
        "a gateway of Envoy Gateway admits any number of requests",
    ),
    Touched(
        _ENVOY_GATEWAY,
        "ClientTrafficPolicy",
        "clienttrafficpolicies",
        Grant.PREREQUISITES,
        "a gateway of Envoy Gateway forwards requests as they were sent",
    ),
    Touched(
        _GATEWAY,
        "BackendTLSPolicy",
        "backendtlspolicies",
        Grant.PREREQUISITES,
        "the certificate of an endpoint is checked",
    ),
    Touched(_DISCOVERY, "EndpointSlice", "endpointslices", Grant.PREREQUISITES, "the address of an endpoint"),
    Touched("v1", "Service", "services", Grant.CHART, "what a route names for an endpoint"),
    Touched("v1", "Secret", "secrets", Grant.CHART, "the keys of the gateway, and those that objects name"),
    Touched("v1", "ServiceAccount", "serviceaccounts", Grant.CHART, "the identities of the gateway's pods"),
    Touched(_APPS, "Deployment", "deployments", Grant.CHART, "the gateway's pods"),
    Touched(
        _APPS,
        "ControllerRevision",
        "controllerrevisions",
        Grant.PREREQUISITES,
        "earlier templates of a ModelDeployment",
    ),
    Touched(
        _POLICY,
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        Grant.PREREQUISITES,
        "a drain does not evict all of the gateway's pods at once",
    ),
    Touched(
        _NETWORKING,
        "NetworkPolicy",
        "networkpolicies",
        Grant.PREREQUISITES,
        "the traffic from and to the gateway's pods is limited",
    ),
)
"""Kinds that the function composes. Modelplane's own come with XRDs, for which the RBAC manager grants."""

REQUIRED = (
    Touched(
        _EXTENSIONS,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        Grant.CHART,
        "whether Crossplane owns a kind",
        read_only=True,
    ),
    Touched(
        "apiextensions.crossplane.io/v1",
        "CompositionRevision",
        "compositionrevisions",
        Grant.CHART,
        "what Crossplane would choose for a child",
        read_only=True,
    ),
    Touched(
        _SCHEDULING,
        "PriorityClass",
        "priorityclasses",
        Grant.PREREQUISITES,
        "the values of the priorities that DeviceQuotas allow",
        read_only=True,
    ),
    Touched(
        "v1", "ConfigMap", "configmaps", Grant.CHART, "whether a named ConfigMap is there", read_only=True
    ),
)
"""Kinds that it requires beside Modelplane's own."""
