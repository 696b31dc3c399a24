"""The kinds of objects that are written to inference clusters: a row each.

One rule: what depends on the kind of a child is said in its row and read from there. The controllers'
watches and what they look for after a restart, RBAC, readiness here and under Crossplane, the capabilities
of a cluster and the pods of a workload all follow from this table. A composition cannot write a kind
without a row to a cluster (``Desired`` refuses it), because nothing would find such an object again to
delete it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api import labels


@dataclass(frozen=True, slots=True)
class Copies:
    """Ready once the status counts at least one copy that serves.

    Not the workload's own ``Available``: with one copy and ``maxUnavailable: 1`` that is True at zero.
    """

    field: str
    observes_generation: bool = True
    """Whether its status says of which generation it speaks."""

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Whether a child is ready, as observed."""
        return int(child.get("status", {}).get(self.field, 0)) > 0

    @property
    def query(self) -> str:
        """The same in CEL, and that every copy has the last edit."""
        terms = [
            f"has(object.status.{self.field}) && object.status.{self.field} > 0",
            "has(object.status.updatedReplicas) && object.status.updatedReplicas >= object.spec.replicas",
        ]
        if self.observes_generation:
            terms.append("object.status.observedGeneration >= object.metadata.generation")
        return " && ".join(terms)


@dataclass(frozen=True, slots=True)
class Finished:
    """Ready once a condition is True, whatever generation it speaks of."""

    condition: str

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Whether a child is ready, as observed."""
        conditions = child.get("status", {}).get("conditions") or ()
        return any(each["type"] == self.condition and each["status"] == "True" for each in conditions)

    @property
    def query(self) -> str:
        """The same in CEL."""
        return f"object.status.conditions.exists(c, c.type == '{self.condition}' && c.status == 'True')"


@dataclass(frozen=True, slots=True)
class InPhase:
    """Ready once it is in a phase."""

    phase: str

    def hold(self, child: Mapping[str, Any]) -> bool:
        """Whether a child is ready, as observed."""
        return bool(child.get("status", {}).get("phase") == self.phase)

    @property
    def query(self) -> str:
        """The same in CEL."""
        return f"object.status.phase == '{self.phase}'"


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of children on inference clusters."""

    group: str
    version: str
    kind: str
    plural: str
    why: str
    """The reason for the permission to write it; kinds of one group and reason share a rule."""
    namespaced: bool = True
    ready: Copies | Finished | InPhase | None = None
    """How its readiness is read; where nothing is said, it is ready once it exists."""
    pods: str = ""
    """The label by which its pods are found, where it has any. Then it is gone only when they are."""
    templates: tuple[tuple[str, ...], ...] = ()
    """Where in its spec the templates of these pods are."""
    vital: bool = False
    """Whether every replica is made of it: a cluster where it cannot be read is of no use."""
    immutable: bool = False
    """Whether a change is a new object, and the old one stays while pods need it."""
    answered: bool = False
    """Whether others say in its status what they make of it, so that its changes matter even when ready."""
    capability: str = ""
    """The capability that a cluster has by it, as an InferenceCluster's status calls it; else each has it."""

    @property
    def api_version(self) -> str:
        """What manifests say under ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def serves(self) -> bool:
        """Whether it runs servers."""
        return isinstance(self.ready, Copies)


_NEEDS_OF_PODS = (
    "What pods need: settings, staged weights, copies of what they name, an identity, an address. Only "
    "objects labelled as Modelplane's are asked for, which a role cannot say."
)
_RBAC = "rbac.authorization.k8s.io"
_PICKERS = "An endpoint picker may see the pods that it picks from."

DEPLOYMENT = WorkloadKind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    "Engines and endpoint pickers.",
    ready=Copies("availableReplicas"),
    pods=labels.WORKLOAD,
    templates=(("template",),),
    vital=True,
)

LEADER_WORKER_SET = WorkloadKind(
    "leaderworkerset.x-k8s.io",
    "v1",
    "LeaderWorkerSet",
    "leaderworkersets",
    "Engines that span nodes.",
    # It counts whole groups.
    ready=Copies("readyReplicas", observes_generation=False),
    pods=labels.WORKLOAD,
    templates=(("leaderWorkerTemplate", "leaderTemplate"), ("leaderWorkerTemplate", "workerTemplate")),
    capability="leaderWorkerSet",
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

_ROWS = (
    DEPLOYMENT,
    LEADER_WORKER_SET,
    WorkloadKind(
        "batch",
        "v1",
        "Job",
        "jobs",
        "Weights are staged by Jobs.",
        ready=Finished("Complete"),
        pods=labels.MODEL_CACHE,
        templates=(("template",),),
    ),
    WorkloadKind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "A drain of nodes leaves a replica serving.",
    ),
    WorkloadKind("", "v1", "ConfigMap", "configmaps", _NEEDS_OF_PODS, immutable=True),
    WorkloadKind(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        _NEEDS_OF_PODS,
        ready=InPhase("Bound"),
    ),
    WorkloadKind("", "v1", "Secret", "secrets", _NEEDS_OF_PODS),
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
    ),
)

ROWS: dict[tuple[str, str], WorkloadKind] = {(row.api_version, row.kind): row for row in _ROWS}
"""Every kind by what manifests say under ``apiVersion`` and ``kind``. Read it where it is needed: what is
derived once, at import, does not see a row that is added."""


def row_of(item: Mapping[str, Any]) -> WorkloadKind | None:
    """Return the row of an object's kind; None where such objects are not written to clusters."""
    return ROWS.get((item.get("apiVersion", ""), item.get("kind", "")))


def has_pods(item: Mapping[str, Any]) -> bool:
    """Whether an object is gone only when its pods are, and what the pods hold is free."""
    row = row_of(item)
    return row is not None and bool(row.pods)


def pod_labels() -> frozenset[str]:
    """Return the labels by which the pods of some kind are found."""
    return frozenset(row.pods for row in ROWS.values() if row.pods)


def capabilities() -> dict[str, str]:
    """Return which CustomResourceDefinition says that a cluster has which capability."""
    return {row.capability: row.definition for row in ROWS.values() if row.capability}
