"""Rules, roles and bindings (Kubernetes RBAC) as manifests."""

from collections.abc import Mapping
from dataclasses import dataclass

from modelplane.api.meta import SYSTEM_NAMESPACE
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
        rule: Object = {
            "apiGroups": [self.group],
            "resources": [*self.resources],
            "verbs": [*self.verbs],
        }
        return rule | ({"resourceNames": [*self.names]} if self.names else {})


def build_account(name: str, namespace: str = SYSTEM_NAMESPACE) -> Object:
    """Return a ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


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
