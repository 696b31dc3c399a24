"""Manifests to apply before the packages: a namespace, Crossplane's missing permissions, and a policy.

One rule: no permission that Crossplane already has. A composed kind gets all seven verbs, because Crossplane
requests each and warns of a missing one although it never updates.
"""

from itertools import groupby

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.crossplane.package.metadata import Document, stream, to_yaml
from modelplane.crossplane.package.touched import COMPOSED, REQUIRED, Grant, Touched
from modelplane.install import crossplane_gateway

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")

AGGREGATE = "rbac.crossplane.io/aggregate-to-crossplane"

# Resources for which Crossplane has no permission of its own.
_NOT_GRANTED = [resource for resource in (*COMPOSED, *REQUIRED) if resource.grant is Grant.PREREQUISITES]
_POLICY = "modelplane-namespaces"
_ADMISSION = "admissionregistration.k8s.io/v1"
_NOT_AT_ONCE = (
    'has(request.name) && request.name != "" || '
    "!has(namespaceObject.metadata.deletionTimestamp) || !has(oldObject.metadata.ownerReferences)"
)
_WHY = (
    '"provider-kubernetes needs it to delete what Object " + oldObject.resourceRef.name + '
    '" stands for on its cluster, and it goes after that Object"'
)


def _protect_connections() -> tuple[Document, ...]:
    """Return the policy that protects the provider's connections while a namespace is deleted.

    The namespace controller deletes all objects of a kind at once, and the provider's ProviderConfigUsages
    before its Objects. Without these the provider reaches no cluster, and it cannot recreate them in a
    terminating namespace. A request to delete all of a kind has no name; the garbage collector's request,
    once the Object is gone, has one.
    """
    rule = {
        "apiGroups": ["kubernetes.m.crossplane.io"],
        "apiVersions": ["*"],
        "operations": ["DELETE"],
        "resources": ["providerconfigusages"],
    }
    return (
        {
            "apiVersion": _ADMISSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": _POLICY},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {"expression": _NOT_AT_ONCE, "messageExpression": _WHY, "reason": "Forbidden"}
                ],
            },
        },
        {
            "apiVersion": _ADMISSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _POLICY},
            "spec": {"policyName": _POLICY, "validationActions": ["Deny"]},
        },
    )


def build_prerequisites() -> tuple[Document, ...]:
    """Return the namespaces, Crossplane's additional permissions, those of the gateway, and the policy."""
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "modelplane:aggregate-to-crossplane", "labels": {AGGREGATE: "true"}},
            "rules": [
                {
                    "apiGroups": [group],
                    "resources": sorted(kind.plural for kind in kinds),
                    "verbs": list(READ if read_only else WRITE),
                }
                for (group, read_only), kinds in groupby(
                    sorted(_NOT_GRANTED, key=_by_group_and_access), key=_by_group_and_access
                )
            ],
        },
        *crossplane_gateway.build_permissions(),
        *_protect_connections(),
    )


def render_prerequisites() -> str:
    """Return the prerequisites as YAML, with the reason for each permission."""
    namespace, role, *others = build_prerequisites()
    rules = role.pop("rules")
    written = [
        stream((namespace, role)),
        "rules:\n",
        *(_explain_rule(rule) + to_yaml([rule]) for rule in rules),
    ]
    return "".join([*written, "---\n", stream(others)])


def _explain_rule(rule: Document) -> str:
    why = {(resource.group, resource.plural): resource.why for resource in _NOT_GRANTED}
    [group] = rule["apiGroups"]
    return "".join(f"# {plural}: {why[group, plural]}\n" for plural in rule["resources"])


def _by_group_and_access(touched: Touched) -> tuple[str, bool]:
    return touched.group, touched.read_only
