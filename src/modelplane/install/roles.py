"""Roles and bindings (Kubernetes RBAC): their manifests, and those for the gateway's files.

The permissions of the controllers are in ``identity_permissions.py``, those of people in ``people_roles.py``.

A role cannot select Secrets by their label. So the gateway's have a namespace of their own, and the gateway's
identity reads no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.install.installation_options import CONTROLLER, GATEWAY, build_labels
from modelplane.kube.resources import Object

RBAC = "rbac.authorization.k8s.io"
"""The API group of roles and bindings."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One permission and its reason."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    """The names of the objects; empty for all objects."""
    unseen: str = ""
    """The reason why an API server may never receive such a request; empty if it does."""

    def build_manifest(self) -> Object:
        """Return the rule as an entry of a role."""
        return {
            "apiGroups": [self.group],
            "resources": [*self.resources],
            "verbs": [*self.verbs],
        } | ({"resourceNames": [*self.names]} if self.names else {})


def build_account(name: str) -> Object:
    """Return a ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}


@dataclass(frozen=True, slots=True)
class Role:
    """A role, of one namespace (``Role``) or for any binding (``ClusterRole``)."""

    kind: str
    name: str
    rules: tuple[Rule, ...]
    labels: Mapping[str, str]

    def build_manifest(self, namespace: str = "") -> Object:
        """Return the role; a ``Role`` needs a namespace."""
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": self.kind,
            "metadata": self._metadata(namespace),
            "rules": [rule.build_manifest() for rule in self.rules],
        }

    def build_binding(self, subject: Mapping[str, str], namespace: str = "") -> Object:
        """Return the binding of the role to a subject, in one namespace or in all."""
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": self._metadata(namespace),
            "roleRef": {"apiGroup": RBAC, "kind": self.kind, "name": self.name},
            "subjects": [dict(subject)],
        }

    def bound_to(self, subject: Mapping[str, str], namespace: str = "") -> list[Object]:
        """Return the role and its binding, both in the namespace if one is given."""
        return [self.build_manifest(namespace), self.build_binding(subject, namespace)]

    def _metadata(self, namespace: str) -> Object:
        where = {"namespace": namespace} if namespace else {}
        return {"name": self.name, **where, "labels": dict(self.labels)}


_READ = ("list", "watch")

PODS = (
    Rule("", ("services",), _READ, "The address of the gateway for clients."),
    Rule(
        "discovery.k8s.io",
        ("endpointslices",),
        _READ,
        "The number of the gateway's pods, which have equal parts of the limits of API keys.",
    ),
)
"""About the gateway's pods, in the namespace of the installation; for whoever publishes its configuration."""

PUBLISHER = (
    Rule("", ("secrets",), _READ, "The private part of the gateway's configuration, as it was published."),
    Rule(
        "",
        ("secrets",),
        ("create", "patch", "delete"),
        "The private part of the gateway's configuration, such as the hashes of API keys.",
        unseen="only a gateway that asks for keys has one",
    ),
    Rule("", ("configmaps",), _READ, "What each gateway has counted, for budgets of API keys."),
    Rule(
        "",
        ("configmaps",),
        ("delete",),
        "The sums of days and months that are over.",
        unseen="a day has to end",
    ),
)
"""In the namespace of the gateway's Secrets."""

COMPANION = (Rule("", ("configmaps",), _READ, "The configuration that the controllers publish for it."),)
"""For the gateway's own identity, in the namespace of the installation."""

COMPANION_PRIVATE = (
    Rule("", ("secrets",), _READ, "The private part of its configuration. No other Secrets are there."),
    Rule(
        "",
        ("configmaps",),
        ("create", "patch"),
        "What it has counted, for budgets of API keys. No other ConfigMaps are there.",
        unseen="only a gateway that asks for keys counts",
    ),
)
"""For the gateway's own identity, in the namespace of its Secrets."""


def build_publishing_roles() -> list[Object]:
    """Return the roles of those who publish the gateway's files: the controllers, and the gateway itself."""
    publisher = Role("Role", f"{CONTROLLER}-private", PUBLISHER, build_labels("controller"))
    return [*publisher.bound_to(build_account(CONTROLLER), GATEWAY_NAMESPACE), *build_gateway_roles()]


def build_gateway_roles() -> list[Object]:
    """Return the roles of the gateway's own identity and their bindings."""
    gateway = build_labels("gateway")
    private = Role("Role", f"{GATEWAY}-private", COMPANION_PRIVATE, gateway)
    return [
        *Role("Role", GATEWAY, COMPANION, gateway).bound_to(build_account(GATEWAY), SYSTEM_NAMESPACE),
        *private.bound_to(build_account(GATEWAY), GATEWAY_NAMESPACE),
    ]
