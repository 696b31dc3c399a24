"""Kinds of children that are not Modelplane's own: one row each.

Every property that depends on the kind of a child is in its row. The controllers' watches, the search for
children after a restart, RBAC, readiness here and under Crossplane, the capabilities of a cluster and the
pods of a workload follow from this table. A kind without a row cannot be written (``Desired`` rejects it for
a cluster, the writer for the control plane), because such an object would be orphaned.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.clouds.kinds import MANAGED
from modelplane.compose.workload_readiness import Copies, Finished, InPhase, Reported


class Place(Enum):
    """API servers that children of a kind are written to."""

    CLUSTERS = auto()
    """The inference clusters."""
    CONTROL_PLANE = auto()
    """The control plane, where the CustomResourceDefinition of the kind is installed."""
    HELM = auto()
    """Helm on a cluster: the controllers carry out such a child and never store it.

    Under Crossplane it is stored on the control plane, and provider-helm carries it out.
    """


class WorkloadKind(msgspec.Struct, frozen=True):
    """A kind of children that is not our own."""

    group: str
    version: str
    kind: str
    plural: str
    why: str
    """The reason for the permission to write it; kinds of one group and reason share a rule."""
    namespaced: bool = True
    place: Place = Place.CLUSTERS
    ready: Copies | Finished | InPhase | Reported | None = None
    """Readiness rule; without one, it is ready once it exists."""
    pods: tuple[str, ...] = ()
    """Labels, each of which selects pods of it, if it has any. It is deleted only once they are."""
    templates: tuple[tuple[str, ...], ...] = ()
    """Paths of its pod templates in its spec."""
    vital: bool = False
    """True if every replica has it: a cluster where it cannot be read cannot be used."""
    immutable: bool = False
    """True if it is immutable: a change is a new object, and the old one stays while pods need it."""
    answered: bool = False
    """True if other controllers report in its status, so that its changes matter even when it is ready."""
    scoped: bool = False
    """True if the fleet's identity may read and write it only in namespaces with copies (``copy_access``)."""
    capability: str = ""
    """The capability of clusters that have it, in an InferenceCluster's status; empty if all have it."""
    built_in: bool = False
    """True if every API server serves it: there is no CustomResourceDefinition to wait for."""
    of_front: bool = False
    """True if the gateway of the fleet has one too: on the control plane, in the system's namespace."""

    @property
    def api_version(self) -> str:
        """Its ``apiVersion`` in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def serves(self) -> bool:
        """True if it runs servers."""
        return isinstance(self.ready, Copies | Reported)

    @property
    def counts_updates(self) -> bool:
        """True if its status counts the copies that are up to date."""
        return isinstance(self.ready, Copies)


_NEEDS_OF_PODS = (
    "What pods need: staged weights, an identity, an address. Only objects labelled as Modelplane's are "
    "asked for, which a role cannot say."
)
_COPIES = "Settings, and copies of what pods name."
_RBAC = "rbac.authorization.k8s.io"
_GATEWAY_API = "gateway.networking.k8s.io"
_GATEWAY = "The serving stack includes the gateway of the cluster."
_MUTUAL_TLS = "The gateway of a cluster with mutual TLS reads its certificate and checks that of its clients."
_PICKERS = "An endpoint picker may see the pods that it picks from."

DEPLOYMENT = WorkloadKind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    "Engines and endpoint pickers.",
    ready=Copies("availableReplicas"),
    pods=(labels.WORKLOAD,),
    templates=(("template",),),
    vital=True,
)

LEADER_WORKER_SET = WorkloadKind(
    "leaderworkerset.x-k8s.io",
    "v1",
    "LeaderWorkerSet",
    "leaderworkersets",
    "Engines that span nodes.",
    # A LeaderWorkerSet counts whole groups.
    ready=Copies("readyReplicas", observes_generation=False),
    pods=(labels.WORKLOAD,),
    templates=(("leaderWorkerTemplate", "leaderTemplate"), ("leaderWorkerTemplate", "workerTemplate")),
    capability="leaderWorkerSet",
)

LLM_INFERENCE_SERVICE = WorkloadKind(
    "serving.kserve.io",
    "v1alpha2",
    "LLMInferenceService",
    "llminferenceservices",
    "Engines on clusters with the backend KServe.",
    ready=Reported("Ready"),
    # Source: KServe's controller. It passes labels on to the pods of Deployments, not to those of
    # LeaderWorkerSets.
    pods=(labels.WORKLOAD, labels.LWS_NAME),
    templates=(("template",), ("worker",), ("prefill", "template"), ("prefill", "worker")),
    answered=True,
    capability="llmInferenceService",
)

INFERENCE_POOL = WorkloadKind(
    "inference.networking.k8s.io",
    "v1",
    "InferencePool",
    "inferencepools",
    "What an endpoint picker picks from.",
    answered=True,
    capability="inferencePool",
)

GATEWAYS = (
    WorkloadKind(
        _GATEWAY_API, "v1", "GatewayClass", "gatewayclasses", _GATEWAY, namespaced=False, of_front=True
    ),
    WorkloadKind(_GATEWAY_API, "v1", "Gateway", "gateways", _GATEWAY, answered=True, of_front=True),
    WorkloadKind(_GATEWAY_API, "v1beta1", "ReferenceGrant", "referencegrants", _MUTUAL_TLS),
    WorkloadKind(
        "gateway.envoyproxy.io",
        "v1alpha1",
        "ClientTrafficPolicy",
        "clienttrafficpolicies",
        "The gateway admits the fleet's gateway only, and forwards requests as they were sent.",
        answered=True,
        of_front=True,
    ),
    WorkloadKind(
        "gateway.envoyproxy.io",
        "v1alpha1",
        "BackendTrafficPolicy",
        "backendtrafficpolicies",
        "The gateway admits as many requests as its models take.",
        of_front=True,
    ),
)
"""The gateway of a cluster, which is no team's."""

STORAGE_CLASS = WorkloadKind(
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    "The serving stack of a cloud's cluster includes the storage for caches.",
    namespaced=False,
)

NIC_CLUSTER_POLICY = WorkloadKind(
    "mellanox.com",
    "v1alpha1",
    "NicClusterPolicy",
    "nicclusterpolicies",
    "The serving stack of a cluster with InfiniBand includes the drivers of its network cards.",
    namespaced=False,
    ready=InPhase("ready", "state"),
)

OF_STACKS = (
    *GATEWAYS,
    STORAGE_CLASS,
    NIC_CLUSTER_POLICY,
    WorkloadKind("", "v1", "ResourceQuota", "resourcequotas", "The DRA driver runs pods of system priority."),
)
"""The kinds that only serving stacks have."""

_ROWS = (
    DEPLOYMENT,
    LEADER_WORKER_SET,
    LLM_INFERENCE_SERVICE,
    WorkloadKind(
        "batch",
        "v1",
        "Job",
        "jobs",
        "Weights are staged by Jobs.",
        ready=Finished("Complete"),
        pods=(labels.MODEL_CACHE,),
        templates=(("template",),),
    ),
    WorkloadKind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "A drain of nodes leaves a replica serving.",
    ),
    WorkloadKind("", "v1", "ConfigMap", "configmaps", _COPIES, immutable=True, scoped=True),
    WorkloadKind(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        _NEEDS_OF_PODS,
        ready=InPhase("Bound"),
    ),
    WorkloadKind("", "v1", "Secret", "secrets", _COPIES, scoped=True),
    WorkloadKind("", "v1", "ServiceAccount", "serviceaccounts", _NEEDS_OF_PODS),
    WorkloadKind("", "v1", "Service", "services", _NEEDS_OF_PODS, vital=True),
    WorkloadKind(_RBAC, "v1", "RoleBinding", "rolebindings", _PICKERS),
    WorkloadKind(_RBAC, "v1", "Role", "roles", _PICKERS),
    INFERENCE_POOL,
    WorkloadKind(
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        "The devices of each pod.",
        vital=True,
        immutable=True,
    ),
    WorkloadKind(
        "gateway.networking.k8s.io",
        "v1",
        "HTTPRoute",
        "httproutes",
        "The path of requests to a replica.",
        vital=True,
        answered=True,
        of_front=True,
    ),
    *OF_STACKS,
)
RELEASE = WorkloadKind(
    "helm.m.crossplane.io",
    "v1beta1",
    "Release",
    "releases",
    "What serving needs on a cluster is installed from Helm charts.",
    place=Place.HELM,
    ready=Finished("Ready"),
)

CONTROLLER_REVISION = WorkloadKind(
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions",
    "Earlier templates of ModelDeployments are kept, to return to them.",
    place=Place.CONTROL_PLANE,
    built_in=True,
)

_MANAGED = tuple(
    WorkloadKind(
        *(kind.group, kind.version, kind.kind, kind.plural, why),
        place=Place.CONTROL_PLANE,
        ready=Finished("Ready"),
    )
    for why, kinds in MANAGED.items()
    for kind in kinds
)
"""The managed resources of clouds."""

ROWS: dict[tuple[str, str], WorkloadKind] = {
    (row.api_version, row.kind): row for row in (*_ROWS, RELEASE, CONTROLLER_REVISION, *_MANAGED)
}
"""Every kind by its ``apiVersion`` and ``kind``. Read it at run time: a value derived at import does not
include a row that is added later.
"""


def row_of(item: Mapping[str, Any]) -> WorkloadKind | None:
    """Return the row of an object's kind; None if it has no row."""
    return ROWS.get((item.get("apiVersion", ""), item.get("kind", "")))


def rows(place: Place) -> tuple[WorkloadKind, ...]:
    """Return the kinds that are written to a place."""
    return tuple(row for row in ROWS.values() if row.place is place)


def on_control_plane(item: Mapping[str, Any]) -> WorkloadKind | None:
    """Return the row of an object that may be written to the control plane; None for any other object."""
    row, namespace = row_of(item), item["metadata"].get("namespace", "")
    if row is None or row.place is Place.CONTROL_PLANE:
        return row
    return row if row.of_front and namespace in ("", SYSTEM_NAMESPACE) else None


def is_release(item: Mapping[str, Any]) -> bool:
    """Return True if an object is an instruction to Helm."""
    row = row_of(item)
    return row is not None and row.place is Place.HELM


def has_pods(item: Mapping[str, Any]) -> bool:
    """Return True if an object is deleted only once its pods are, and their resources are free."""
    row = row_of(item)
    return row is not None and bool(row.pods)


def pod_labels() -> frozenset[str]:
    """Return the labels that select the pods of all kinds."""
    return frozenset(label for row in ROWS.values() for label in row.pods)


def capabilities() -> dict[str, str]:
    """Return the CustomResourceDefinition of each capability."""
    return {row.capability: row.definition for row in ROWS.values() if row.capability}
