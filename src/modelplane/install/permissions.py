"""Permissions of each identity, rule by rule, each with its reason (Kubernetes RBAC).

One rule: least privilege that works. A verb that no reconcile uses is a fault, as a missing one is;
``tests/kubernetes/test_permissions.py`` compares these tables with what an API server was asked.
Objects are read by one list and one watch of each kind, so hardly anything needs ``get``; server-side
apply is ``patch``, and ``create`` too where the object may not be there yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from modelplane.api.meta import GROUP, SYSTEM_NAMESPACE
from modelplane.compose import workload_kinds
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.workload_kinds import Place
from modelplane.install.identity import CONTROLLER, GATEWAY, labels
from modelplane.kube.resources import Object

_RBAC = "rbac.authorization.k8s.io"

_READ = ("list", "watch")
_WRITE = (*_READ, "create", "patch", "delete")

TEAM_OBJECTS = "modelplane-team-objects"
"""The role that reads what models name in their teams' namespaces."""

INFERENCE_CLUSTER = "modelplane-inference-cluster"
"""The identity that a fleet has on one of its clusters, and its role."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One permission and its reason."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """The objects that it is about; all where none is named."""
    unseen: str = ""
    """Why an API server may never be asked for it; empty where it is."""

    def manifest(self) -> Object:
        """Return the rule as a role states it."""
        rule: Object = {
            "apiGroups": [self.group],
            "resources": [*self.resources],
            "verbs": [*self.verbs],
        }
        return rule | ({"resourceNames": [*self.names]} if self.names else {})


_KINDS = tuple(kind.plural for kind in COMPOSED)

FLEET = (
    Rule(GROUP, _KINDS, _READ, "Every decision is made from copies of these objects."),
    Rule(
        GROUP,
        tuple(f"{plural}/status" for plural in _KINDS),
        ("patch",),
        "What was decided, and why, is written into the status.",
    ),
    Rule(
        GROUP,
        ("modelendpoints", "modelreplicas"),
        ("create", "patch", "delete"),
        "Deployments are made of replicas, and replicas of endpoints.",
    ),
    Rule(
        GROUP,
        ("inferenceclasses", "inferenceclusters", "modelcaches"),
        ("patch",),
        "A finalizer holds what others need, and what has left something on a cluster.",
    ),
    Rule(
        GROUP,
        ("modeldeployments/finalizers", "modelreplicas/finalizers"),
        ("update",),
        "A replica keeps its deployment, and an endpoint its replica, until it is gone itself.",
        unseen="only the admission plugin OwnerReferencesPermissionEnforcement asks, where it is on",
    ),
    Rule("events.k8s.io", ("events",), ("create",), "Conditions that change are told as events."),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "Whose the kinds are: where Crossplane owns them, the controllers stand back.",
    ),
)
"""On the control plane, everywhere, whatever is composed there."""

TEAMS = (
    Rule(
        "",
        ("configmaps", "secrets"),
        _READ,
        "Engines name ConfigMaps, Secrets and pull secrets, and caches the token of a hub; these are copied "
        "to the clusters, and no others. Each is asked for by namespace and name. A role cannot say that: "
        "teams choose the names at any time. An installation can name the namespaces.",
    ),
)
"""In the teams' namespaces."""

SYSTEM = (
    Rule("", ("secrets",), _READ, "The kubeconfigs of the clusters."),
    Rule(
        "coordination.k8s.io", ("leases",), ("create",), "The first of several controllers makes the Lease."
    ),
    Rule(
        "coordination.k8s.io",
        ("leases",),
        ("get", "patch"),
        "Of several controllers, the one that holds the Lease acts.",
        names=(CONTROLLER,),
    ),
    Rule("", ("services",), _READ, "The address of the gateway for clients."),
    Rule(
        "",
        ("configmaps",),
        _WRITE,
        "The gateway's configuration. It is in parts that are named for their content, so no role can "
        "name them.",
    ),
)
"""In the namespace of the installation."""

COMPANION = (Rule("", ("configmaps",), _READ, "The configuration that the controllers publish for it."),)
"""Of the gateway's own identity, in the namespace of the installation."""


def _children(place: Place) -> Iterator[Rule]:
    """Yield the permission to write each kind of children to a place."""
    shared: dict[tuple[str, str], list[str]] = {}
    for row in workload_kinds.rows(place):
        shared.setdefault((row.group, row.why), []).append(row.plural)
    for (group, why), plurals in shared.items():
        yield Rule(group, tuple(sorted(plurals)), _WRITE, why)


def on_control_plane() -> tuple[Rule, ...]:
    """Return the rules on the control plane, everywhere."""
    return (*FLEET, *_children(Place.CONTROL_PLANE))


_READ_ON_CLUSTERS = (
    Rule("gateway.networking.k8s.io", ("gateways",), _READ, "Where the cluster takes requests."),
    Rule("", ("pods",), _READ, "Why an engine does not start."),
    Rule(
        "",
        ("pods/log",),
        ("get",),
        "`modelplane logs` shows what an engine says, to those who may read the Secret with this identity.",
        unseen="a person's command asks, and no controller",
    ),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "What the cluster can do: which kinds it has.",
    ),
    Rule("", ("namespaces",), ("create",), "Each team's models have a namespace of the team's name."),
    Rule(
        "",
        ("pods",),
        ("get",),
        "Endpoint pickers may.",
        unseen="nobody can grant what he may not do",
    ),
    Rule(
        "inference.networking.k8s.io",
        ("inferencepools",),
        ("get",),
        "Endpoint pickers may.",
        unseen="nobody can grant what he may not do",
    ),
    Rule(
        "inference.networking.x-k8s.io",
        ("inferenceobjectives",),
        ("get", *_READ),
        "Endpoint pickers may.",
        unseen="nobody can grant what he may not do",
    ),
)


def on_cluster() -> tuple[Rule, ...]:
    """Return the rules on an inference cluster, everywhere: workloads that serve, what is read of them."""
    return (*_children(Place.CLUSTERS), *_READ_ON_CLUSTERS)


PEOPLE = {
    "edit": Rule(
        GROUP,
        ("modelcaches", "modeldeployments", "modeldeployments/scale", "modelendpoints", "modelservices"),
        ("create", "delete", "deletecollection", "patch", "update"),
        "Who may edit a namespace may serve models in it.",
    ),
    "view": Rule(
        GROUP,
        tuple(kind.plural for kind in COMPOSED if kind.namespaced),
        ("get", *_READ),
        "Who may view a namespace may see its models.",
    ),
}
"""What is added to the cluster's own roles for people, by the least of those roles."""

_INHERITORS = {"edit": ("edit", "admin"), "view": ("view", "edit", "admin")}


def installed(team_namespaces: Iterable[str]) -> list[Object]:
    """Return the roles of an installation and their bindings."""
    controller, gateway = labels("controller"), labels("gateway")
    teams = Role("ClusterRole", TEAM_OBJECTS, TEAMS, controller)
    return [
        *Role("ClusterRole", CONTROLLER, on_control_plane(), controller).bound_to(account(CONTROLLER)),
        *Role("Role", CONTROLLER, SYSTEM, controller).bound_to(account(CONTROLLER), SYSTEM_NAMESPACE),
        teams.manifest(),
        *(teams.binding(account(CONTROLLER), each) for each in tuple(team_namespaces) or ("",)),
        *Role("Role", GATEWAY, COMPANION, gateway).bound_to(account(GATEWAY), SYSTEM_NAMESPACE),
        *(_for_people(name, rule) for name, rule in PEOPLE.items()),
    ]


def account(name: str, namespace: str = SYSTEM_NAMESPACE) -> Object:
    """Return a ServiceAccount as bindings name it."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


@dataclass(frozen=True, slots=True)
class Role:
    """A role, of one namespace (``Role``) or for any binding (``ClusterRole``)."""

    kind: str
    name: str
    rules: tuple[Rule, ...]
    labels: Mapping[str, str]

    def manifest(self, namespace: str = "") -> Object:
        """Return the role itself; a ``Role`` is in a namespace."""
        return {
            "apiVersion": f"{_RBAC}/v1",
            "kind": self.kind,
            "metadata": self._metadata(namespace),
            "rules": [rule.manifest() for rule in self.rules],
        }

    def binding(self, subject: Mapping[str, str], namespace: str = "") -> Object:
        """Return what gives the role to a subject, in one namespace or in all."""
        return {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": self._metadata(namespace),
            "roleRef": {"apiGroup": _RBAC, "kind": self.kind, "name": self.name},
            "subjects": [dict(subject)],
        }

    def bound_to(self, subject: Mapping[str, str], namespace: str = "") -> list[Object]:
        """Return the role and its binding, both in the namespace where one is named."""
        return [self.manifest(namespace), self.binding(subject, namespace)]

    def _metadata(self, namespace: str) -> Object:
        where = {"namespace": namespace} if namespace else {}
        return {"name": self.name, **where, "labels": dict(self.labels)}


def _for_people(name: str, rule: Rule) -> Object:
    """Return a role that Kubernetes adds to its own roles of these names (aggregation)."""
    inherited = {f"{_RBAC}/aggregate-to-{role}": "true" for role in _INHERITORS[name]}
    return Role("ClusterRole", f"modelplane-{name}", (rule,), labels() | inherited).manifest()
