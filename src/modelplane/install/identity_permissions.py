"""Permissions of the controllers' identities, rule by rule, each with its reason (Kubernetes RBAC).

Those for children come from the rows of ``compose/workload_kinds.py``.

Least privilege: a verb that no reconcile uses is a fault, as a missing one is.
``tests/kubernetes/test_permissions.py`` compares these tables with the requests that an API server received.
Objects are read by one list and one watch of each kind, so hardly anything needs ``get``. Server-side apply
is ``patch``, and also ``create`` if the object may not exist yet.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from modelplane.api.meta import GROUP, INFRASTRUCTURE_GROUP, SYSTEM_NAMESPACE
from modelplane.compose import copy_access, workload_kinds
from modelplane.compose.clouds.table import READ_ACCOUNTS
from modelplane.compose.cluster.cluster_kubeconfig import ACCOUNT
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.replica.backends.picker_workload import EXTENSIONS
from modelplane.compose.workload_kinds import Place
from modelplane.install import people_roles, roles
from modelplane.install.installation_options import CONTROLLER, build_labels
from modelplane.install.roles import RBAC, Role, Rule, build_account
from modelplane.kube.resources import Object

_ESCALATION = "RBAC escalation prevention: the grantor must hold the permission"

_READ = ("list", "watch")
_WRITE = (*_READ, "create", "patch", "delete")

TEAM_OBJECTS = "modelplane-team-objects"
"""The role that reads the objects that models name, in their teams' namespaces."""

INFERENCE_CLUSTER = ACCOUNT
"""The identity of a fleet on one of its clusters, and the identity's roles."""

_KINDS = tuple(kind.plural for kind in COMPOSED if kind.group == GROUP)
_CLOUD_CLUSTERS = tuple(kind.plural for kind in COMPOSED if kind.group == INFRASTRUCTURE_GROUP)

FLEET = (
    Rule(GROUP, _KINDS, _READ, "Every decision is made from copies of these objects."),
    Rule(
        GROUP,
        tuple(f"{plural}/status" for plural in _KINDS),
        ("patch",),
        "Decisions and their reasons are written to the status.",
    ),
    Rule(
        INFRASTRUCTURE_GROUP,
        _CLOUD_CLUSTERS,
        _READ,
        "The progress of provisioning, and where kubeconfigs are.",
    ),
    Rule(
        INFRASTRUCTURE_GROUP,
        _CLOUD_CLUSTERS,
        ("create", "patch", "delete"),
        "A cluster of a cloud is composed of one of them. A finalizer holds it while models are on it.",
        unseen="only a cluster of a cloud asks",
    ),
    Rule(
        INFRASTRUCTURE_GROUP,
        tuple(f"{plural}/status" for plural in _CLOUD_CLUSTERS),
        ("patch",),
        "The progress of provisioning is written to the status.",
        unseen="only a cluster of a cloud asks",
    ),
    *(
        Rule(
            account.group,
            ("clusterproviderconfigs", "providerconfigs"),
            _READ,
            "The project that a cluster is made in, and the name of the Secret with the credentials. The "
            "Secret is not read.",
            unseen="only a cluster of a cloud asks",
        )
        for account in READ_ACCOUNTS
    ),
    Rule(
        GROUP,
        ("modelendpoints", "modelreplicas"),
        ("create", "patch", "delete"),
        "Deployments are made of replicas, and replicas of endpoints.",
    ),
    Rule(
        GROUP,
        ("modeldeployments/scale",),
        ("patch",),
        "An InferenceAutoscaler changes the number of replicas.",
        unseen="only an InferenceAutoscaler whose gateway is read asks",
    ),
    Rule(
        GROUP,
        ("inferenceclasses", "inferenceclusters", "modelcaches"),
        ("patch",),
        "A finalizer holds an object that others need, or that has children on a cluster.",
    ),
    Rule(
        GROUP,
        ("modeldeployments/finalizers", "modelreplicas/finalizers"),
        ("update",),
        "A replica blocks the deletion of its deployment, and an endpoint that of its replica.",
        unseen="only the admission plugin OwnerReferencesPermissionEnforcement asks, where it is on",
    ),
    Rule(
        "",
        ("namespaces",),
        _READ,
        "A namespace of a cluster is the team's own if the cluster is the control plane. Only namespaces of "
        "models are asked for, each by its name.",
    ),
    Rule(
        "scheduling.k8s.io",
        ("priorityclasses",),
        _READ,
        "The values of the priorities that DeviceQuotas allow. Each is asked for by its name.",
        unseen="only a fleet with a DeviceQuota with priorityClassNames gets such requests",
    ),
    Rule("events.k8s.io", ("events",), ("create",), "Changes of conditions are reported as events."),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "The owner of the kinds: the controllers refuse to reconcile while Crossplane owns them.",
    ),
)
"""On the control plane, in all namespaces."""

_UNSEEN_OF_FRONT = "only an InferenceGateway with another backend than Envoy asks"

FRONT = (
    Rule(
        GROUP,
        ("inferencegateways",),
        ("patch",),
        "A finalizer holds an InferenceGateway until what it installed is removed.",
        unseen=_UNSEEN_OF_FRONT,
    ),
    Rule(
        "gateway.networking.k8s.io",
        ("gatewayclasses",),
        _WRITE,
        "The class of a gateway that Modelplane installs.",
        unseen=_UNSEEN_OF_FRONT,
    ),
)
"""On the control plane, for the gateway in front of Envoy, and without a namespace."""

TEAMS = (
    Rule(
        "",
        ("configmaps", "secrets"),
        _READ,
        "Engines name ConfigMaps, Secrets and pull secrets, and caches the token of a hub; these are copied "
        "to the clusters, and no others. Endpoints name the credentials of providers, which the gateway "
        "gets. Each is asked for by namespace and name. A role cannot say that: teams choose the names at "
        "any time. An installation can name the namespaces.",
    ),
)
"""In the teams' namespaces."""

SYSTEM = (
    Rule("", ("secrets",), _READ, "The kubeconfigs of the clusters."),
    Rule(
        "",
        ("secrets",),
        ("patch",),
        "A renewed token of a cluster is written into its kubeconfig, and the key that clusters require into "
        "the Secret of the gateway's keys. The platform team chooses the names of these Secrets.",
    ),
    Rule(
        "",
        ("secrets",),
        ("create",),
        "The keys of the fleet's gateway, and the certificates for mutual TLS with the gateways of clusters. "
        "A role cannot name what is created.",
    ),
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
    Rule(
        "coordination.k8s.io",
        ("leases",),
        ("list", "watch"),
        "Clusters renew Leases here as heartbeats, one each.",
        unseen="only a ModelDeployment with spec.failover asks",
    ),
    *roles.PODS,
    Rule(
        "gateway.networking.k8s.io",
        ("gateways", "httproutes"),
        _WRITE,
        "The gateway in front of Envoy, and its route to Envoy.",
        unseen=_UNSEEN_OF_FRONT,
    ),
    Rule(
        "gateway.envoyproxy.io",
        ("backendtrafficpolicies", "clienttrafficpolicies"),
        _WRITE,
        "The gateway in front of Envoy admits the requests that Envoy does.",
        unseen="only an InferenceGateway with backend EnvoyGateway asks",
    ),
    Rule(
        "",
        ("configmaps",),
        _WRITE,
        "The gateway's configuration. It is in parts that are named for their content, so no role can "
        "name them.",
    ),
)
"""In the namespace of the installation."""

_UNSEEN = "only a control plane that has the kinds of a cloud's provider gets such requests"
_UNSEEN_OF_ROLLOUTS = "only a fleet with a deployment with spec.rollout gets such requests"
_UNSEEN_OF_STACKS = "only a cluster with a serving stack gets such requests"

_CAPACITY_WHY = (
    "What new replicas may use of the declared capacity: nodes that are ready, devices that are published "
    "and not tainted, and those that other pods hold. Notices that nodes are being reclaimed."
)
_CAPACITY_UNSEEN = "only an InferenceCluster with capacitySource Observed or a spot pool asks"
_CAPACITY: Final = (
    Rule("", ("nodes",), ("list", "watch"), _CAPACITY_WHY, unseen=_CAPACITY_UNSEEN),
    Rule(
        "resource.k8s.io",
        ("devicetaintrules", "resourceclaims", "resourceslices"),
        ("list", "watch"),
        _CAPACITY_WHY,
        unseen=_CAPACITY_UNSEEN,
    ),
)


def _children(place: Place) -> Iterator[Rule]:
    """Yield the permission to write each kind of children to a place, in all namespaces."""
    shared: dict[tuple[str, str, str], list[str]] = {}
    for row in workload_kinds.rows(place):
        if row.scoped:
            continue
        unseen = _UNSEEN if place is Place.CONTROL_PLANE else ""
        if row.built_in:
            unseen = _UNSEEN_OF_ROLLOUTS
        if row in workload_kinds.OF_STACKS:
            unseen = _UNSEEN_OF_STACKS
        shared.setdefault((row.group, row.why, unseen), []).append(row.plural)
    for (group, why, unseen), plurals in shared.items():
        yield Rule(group, tuple(sorted(plurals)), _WRITE, why, unseen=unseen)


def list_control_plane_rules() -> tuple[Rule, ...]:
    """Return the rules on the control plane, in all namespaces."""
    return (*FLEET, *FRONT, *_children(Place.CONTROL_PLANE))


_READ_ON_CLUSTERS = (
    Rule("gateway.networking.k8s.io", ("gateways",), _READ, "The address where a cluster accepts requests."),
    Rule("", ("pods",), _READ, "The reason why an engine does not start."),
    *_CAPACITY,
    Rule(
        "",
        ("pods/log",),
        ("get",),
        "`modelplane logs` prints engines' logs, for users who may read the Secret with this identity.",
        unseen="requested by a user's command, not by a controller",
    ),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "The capabilities of the cluster: its installed kinds.",
    ),
    Rule(
        "",
        ("namespaces",),
        (*_READ, "create"),
        "Models are in a namespace of the same name as their team's, and in none that is not Modelplane's.",
    ),
    Rule(
        "",
        ("pods",),
        ("get",),
        "Endpoint pickers may.",
        unseen=_ESCALATION,
    ),
    Rule(
        "inference.networking.k8s.io",
        ("inferencepools",),
        ("get",),
        "Endpoint pickers may.",
        unseen=_ESCALATION,
    ),
    *(
        Rule(group, (resource,), ("get", *_READ), "Endpoint pickers may.", unseen=_ESCALATION)
        for group, resource in EXTENSIONS
    ),
)


def list_cluster_rules() -> tuple[Rule, ...]:
    """Return the rules on an inference cluster, in all namespaces: workloads, and objects read about them."""
    deleted = _scoped(("delete",), "Copies are deleted, also where they may no longer be read.")
    return (*_children(Place.CLUSTERS), *deleted, *_READ_ON_CLUSTERS)


def _scoped(verbs: tuple[str, ...], why: str) -> tuple[Rule, ...]:
    rows = [row for row in workload_kinds.rows(Place.CLUSTERS) if row.scoped]
    groups = {
        row.group: sorted(member.plural for member in rows if member.group == row.group) for row in rows
    }
    return tuple(Rule(group, tuple(plurals), verbs, why) for group, plurals in groups.items())


def list_copy_rules() -> tuple[Rule, ...]:
    """Return the rules for copies, for the namespaces of a cluster that have some."""
    return _scoped(
        (*_READ, "create", "patch"),
        "Copies of what pods name. A patch is a permission to read: a JSON patch that copies a value into a "
        "field that must not change is refused with that value, before any admission policy is asked.",
    )


BIND_COPIES = Rule(
    RBAC,
    ("clusterroles",),
    ("bind",),
    "The fleet's identity gives itself the copies of a namespace.",
    names=(copy_access.ROLE,),
    unseen="the API server asks its authorizer itself when the binding is written",
)

_PROVIDER = (
    Rule(
        "",
        ("namespaces",),
        ("patch",),
        "provider-kubernetes creates by server-side apply, and before each look at an object it applies that "
        "object as a dry run. A policy refuses every other change.",
    ),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("patch",),
        "provider-kubernetes applies what it looks at as a dry run. A policy refuses everything else.",
    ),
)


def list_crossplane_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules for provider-kubernetes, which reads each object by its name and then applies it.

    It does so before each write, and children of a replica are written together, so that no binding could be
    there in time.
    """
    by_name = (
        replace(rule, verbs=tuple(dict.fromkeys(("get", *rule.verbs)))) if "list" in rule.verbs else rule
        for rule in rules
    )
    return (*by_name, *_PROVIDER)


OWN_TOKEN = (
    Rule(
        "",
        ("serviceaccounts/token",),
        ("create",),
        "The controllers renew the identity's token with the present one. For this account only.",
        names=(INFERENCE_CLUSTER,),
    ),
)
"""On an inference cluster, in the namespace of the system."""


def build_roles(team_namespaces: Iterable[str]) -> list[Object]:
    """Return the roles of the controllers of an installation, and their bindings."""
    controller = build_labels("controller")
    teams = Role("ClusterRole", TEAM_OBJECTS, TEAMS, controller)
    return [
        *Role("ClusterRole", CONTROLLER, list_control_plane_rules(), controller).bound_to(
            build_account(CONTROLLER)
        ),
        *Role("Role", CONTROLLER, SYSTEM, controller).bound_to(build_account(CONTROLLER), SYSTEM_NAMESPACE),
        teams.build_manifest(),
        *(
            teams.build_binding(build_account(CONTROLLER), team_namespace)
            for team_namespace in tuple(team_namespaces) or ("",)
        ),
        *roles.build_publishing_roles(),
        *people_roles.build_people_roles(),
    ]
