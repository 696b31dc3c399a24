"""Permissions of people: the roles edit, view, platform and gateway-operator."""

from modelplane.api.kinds import kind_of
from modelplane.api.meta import GROUP, INFRASTRUCTURE_GROUP
from modelplane.api.model_key import ModelKey
from modelplane.compose.kinds import COMPOSED
from modelplane.install.installation_options import build_labels
from modelplane.install.roles import RBAC, Role, Rule
from modelplane.kube.resources import Object

_VIEW = ("get", "list", "watch")
_EDIT = ("create", "delete", "patch", "update")

_SECRET = kind_of(ModelKey).plural
"""Its hashes are as secret as Secrets, which the role `view` of Kubernetes does not read either."""

_KINDS = tuple(kind.plural for kind in COMPOSED if kind.group == GROUP and kind.plural != _SECRET)
_CLOUD_CLUSTERS = tuple(kind.plural for kind in COMPOSED if kind.group == INFRASTRUCTURE_GROUP)

PEOPLE = {
    "edit": (
        Rule(
            GROUP,
            (
                "inferenceautoscalers",
                "modelcaches",
                "modeldeployments",
                "modeldeployments/scale",
                "modelendpoints",
                "modelkeys",
                "modelservices",
            ),
            ("create", "delete", "deletecollection", "patch", "update"),
            "Users who may edit a namespace may serve models in it.",
        ),
        Rule(GROUP, (_SECRET,), _VIEW, "They see the hashes of their keys, which users with view do not."),
    ),
    "view": (
        Rule(
            GROUP,
            tuple(
                kind.plural
                for kind in COMPOSED
                if kind.namespaced and kind.group == GROUP and kind.plural != _SECRET
            ),
            _VIEW,
            "Users who may view a namespace may see its models.",
        ),
    ),
    "platform": (
        Rule(
            GROUP,
            ("devicequotas", "inferenceclasses", "inferenceclusters"),
            _EDIT,
            "Platform teams publish hardware, and divide it among teams. Kubeconfigs are Secrets of one "
            "namespace, which this role cannot name.",
        ),
        Rule(
            INFRASTRUCTURE_GROUP,
            _CLOUD_CLUSTERS,
            _VIEW,
            "Platform teams follow the progress of provisioning.",
        ),
        Rule(
            GROUP,
            _KINDS,
            _VIEW,
            "`modelplane explain` compares the fleet's models with its hardware.",
        ),
    ),
    "gateway-operator": (
        Rule(GROUP, ("inferencegateways",), _EDIT, "Operators of the gateway choose its destinations."),
        Rule(
            GROUP,
            ("inferencegateways", "modelendpoints", "modelservices"),
            _VIEW,
            "The addresses that the gateway serves, and those that it sends requests to.",
        ),
    ),
}
"""Rules of the roles for people, by the end of the role's name."""

_INHERITORS = {"edit": ("edit", "admin"), "view": ("view", "edit", "admin")}
"""Kubernetes' own roles that contain a role for people. An administrator binds the others."""


def build_people_roles() -> list[Object]:
    """Return the roles for people. Kubernetes adds some of them to its own roles (aggregation)."""
    built = []
    for name, rules in PEOPLE.items():
        inherited = {f"{RBAC}/aggregate-to-{role}": "true" for role in _INHERITORS.get(name, ())}
        role = Role("ClusterRole", f"modelplane-{name}", rules, build_labels() | inherited)
        built.append(role.build_manifest())
    return built
