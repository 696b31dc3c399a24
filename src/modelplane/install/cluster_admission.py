"""Admission policies of an inference cluster: limits of the fleet's identity that a role cannot express.

A role names kinds, and the identity may write Deployments, Secrets and ServiceAccounts. These policies say in
which namespaces, and what they may contain. So the identity is not an administrator of the cluster, even if
its credential is stolen or the controllers have a bug. They limit no other identity.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import CLOUDS
from modelplane.api.meta import CERTIFICATE_NAMESPACE, GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.api.names import RESERVED, RESERVED_PREFIX
from modelplane.compose import copy_access, workload_kinds
from modelplane.compose.cluster.cluster_kubeconfig import SUBJECT
from modelplane.compose.cluster.cluster_namespace import MADE, OURS
from modelplane.compose.serving_stack import cloud_components
from modelplane.compose.serving_stack.cluster_gateway import ANSWER, CONTROLLER
from modelplane.compose.serving_stack.cluster_mutual_tls import POLICY
from modelplane.compose.serving_stack.table import CRITICAL_PODS
from modelplane.compose.serving_stack.traffic_policies import LIMITS, REQUESTS
from modelplane.compose.workload_kinds import NIC_CLUSTER_POLICY, Place
from modelplane.install.cluster_admission_fields import CARDS, GATEWAYS, ROOTS, SPECS, STORAGE_CLASS
from modelplane.install.cluster_admission_forms import ANY, Form, Validation, build_fields, format_literal
from modelplane.install.cluster_admission_pods import (
    KEY_VARIABLES,
    KEYS,
    PARAMETER,
    PARAMETER_KIND,
    PODS,
    TEMPLATES,
)
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.install.installation_options import MANAGED_BY, MANAGER, PART_OF
from modelplane.kube.resources import Object

_API = "admissionregistration.k8s.io/v1"
_LABEL = next(f"{key}={value}" for key, value in OURS.items())

# Distinct from the installation's labels: a cluster may be registered with itself, and upgrades keep this.
LABELS: Final = {"app.kubernetes.io/name": "modelplane", PART_OF: INFERENCE_CLUSTER, MANAGED_BY: MANAGER}


def _is_ours(which: str) -> str:
    """Return the expression that holds if an object has the label of a fleet."""
    return f"{which}.metadata.?labels[?'{labels.MANAGED_BY}'].orValue('') == '{OURS[labels.MANAGED_BY]}'"


_METADATA = (
    "name",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "finalizers",
    "ownerReferences",
)

_LABELED = (
    Validation(
        f"oldObject == null || {_is_ours('oldObject')}",
        f"the object is not Modelplane's: it has no label {_LABEL}",
    ),
    Validation(
        f"object == null || {_is_ours('object')}",
        f"an object of Modelplane keeps its label {_LABEL}",
    ),
    Validation(
        f"object == null || (object.metadata.all(field, field in {format_literal(_METADATA)}) && "
        "(!has(object.metadata.ownerReferences) || (oldObject != null && "
        "oldObject.metadata.?ownerReferences == optional.of(object.metadata.ownerReferences))) && "
        "object.metadata.?finalizers.orValue([]).all(name, name == 'kubernetes.io/pvc-protection' || "
        "(oldObject != null && name in oldObject.metadata.?finalizers.orValue([]))))",
        "an object of Modelplane on a cluster has no owners and no finalizers, and no generated name",
    ),
)
"""On every object of a fleet."""

_ANSWER = (
    f"(object.kind == 'HTTPRoute' && object.metadata.name == '{ANSWER}' && "
    f"object.metadata.namespace == '{SYSTEM_NAMESPACE}' && "
    f"object.spec.?parentRefs.orValue([]).all(each, each.name == '{GATEWAY_NAME}') && "
    "object.spec.?rules.orValue([]).all(each, each.?backendRefs.orValue([]).size() == 0))"
)
"""Holds for the route that the gateway of a serving stack answers by itself."""

_SECRETS = (
    "Opaque",
    "kubernetes.io/basic-auth",
    "kubernetes.io/dockercfg",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/ssh-auth",
    "kubernetes.io/tls",
)
"""Types of Secrets that pods and images use."""


def _forms(kinds: Mapping[str, Mapping[str, Form]]) -> Iterator[Validation]:
    """Yield the validations of the fields of kinds, which are beside their type and metadata."""
    for kind, form in kinds.items():
        nested = form.get("spec")
        whole = {"apiVersion": ANY, "kind": ANY, "metadata": ANY, **form}
        forms = [*build_fields("object", {**whole, "spec": ANY} if nested else whole)]
        if isinstance(nested, Mapping):
            forms += [
                (f"spec.{name}".rstrip("."), f"(!has(object.spec) || {holds})")
                for name, holds in build_fields("object.spec", nested)
            ]
        for name, holds in forms:
            part = f"{name} of {kind}" if name else kind
            yield Validation(
                f"object == null || object.kind != '{kind}' || {holds}",
                f"{part} has a field or a value that Modelplane does not write",
            )


_OBJECTS = (
    Validation(
        f"request.operation == 'DELETE' || {_is_ours('namespaceObject')} || {_ANSWER}",
        f"the namespace is not Modelplane's: kubectl label namespace NAME {_LABEL}",
    ),
    *_LABELED,
    Validation(
        "object == null || object.kind != 'Secret' || "
        f"object.?type.orValue('Opaque') in {format_literal(_SECRETS)}",
        "a Secret of Modelplane is not a token of an account or of a node",
    ),
    Validation(
        "object == null || object.kind != 'RoleBinding' || (object.roleRef.kind == 'Role' && "
        "object.roleRef.name == object.metadata.name && object.?subjects.orValue([]).all(each, "
        "each.kind == 'ServiceAccount' && each.name == object.metadata.name && "
        "each.?namespace.orValue('') == object.metadata.namespace)) || "
        f"(object.metadata.name == '{copy_access.ROLE}' && object.roleRef.name == '{copy_access.ROLE}' && "
        "object.?subjects.orValue([]).size() == 1 && object.subjects.all(each, "
        f"each.kind == 'ServiceAccount' && each.name == '{INFERENCE_CLUSTER}' && "
        f"each.?namespace.orValue('') == '{SYSTEM_NAMESPACE}'))",
        "a RoleBinding of Modelplane is for a Role of its namespace, or gives the fleet's identity alone the "
        f"role {copy_access.ROLE}",
    ),
    Validation(
        "object == null || object.kind != 'Service' || object.spec.?selector.orValue({}).size() > 0",
        "a Service of Modelplane selects pods",
    ),
    Validation(
        "object == null || !(object.kind in ['PodDisruptionBudget', 'InferencePool']) || "
        "object.spec.?selector.?matchLabels.orValue({}).size() > 0",
        "a PodDisruptionBudget and an InferencePool of Modelplane select pods by labels",
    ),
    Validation(
        f"object == null || object.kind != 'HTTPRoute' || {_ANSWER} || "
        "(object.spec.?parentRefs.orValue([]).all(each, "
        "has(each.namespace)) && object.spec.?rules.orValue([]).all(rule, "
        "rule.?matches.orValue([]).size() > 0 && rule.matches.all(each, has(each.path.value) && "
        "each.path.value.startsWith('/' + object.metadata.namespace + '/' + object.metadata.name + '/'))))",
        "an HTTPRoute of Modelplane leads from the gateway of the cluster, at the path of its own name",
    ),
    Validation(
        f"object == null || object.kind != 'ResourceQuota' || object.metadata.name == '{CRITICAL_PODS}'",
        f"a ResourceQuota of Modelplane has the name {CRITICAL_PODS}",
    ),
    *_forms({**{kind: {"spec": form, "status": ANY} for kind, form in SPECS.items()}, **ROOTS}),
)

_SECURITY = "pod-security.kubernetes.io/enforce"

_NAMESPACES = (
    Validation(_is_ours("object"), f"a namespace that Modelplane makes has the label {_LABEL}"),
    Validation(
        f"!object.metadata.name.startsWith('{RESERVED_PREFIX}') && "
        f"!(object.metadata.name in {[name for name in RESERVED if name != CERTIFICATE_NAMESPACE]})",
        "the namespace is reserved for system components",
    ),
    Validation(
        f"object.metadata.?labels[?'{_SECURITY}'].orValue('') == '{MADE[_SECURITY]}'",
        f"a namespace that Modelplane makes does not permit privileged pods: its label is "
        f"{_SECURITY}={MADE[_SECURITY]}",
    ),
    Validation(
        "object.metadata.labels.all(key, key in "
        f"{format_literal((*MADE, 'kubernetes.io/metadata.name'))}) && "
        "object.metadata.?annotations.orValue({}).all(key, key == "
        "'kubectl.kubernetes.io/last-applied-configuration')",
        "a namespace that Modelplane makes has no further labels, and no annotations",
    ),
)

_STORAGE_CLASSES = sorted([row.cache_storage, row.cache_provisioner] for row in CLOUDS if row.cache_storage)

_GATEWAYS = (
    *_LABELED,
    Validation(
        "object == null || object.kind != 'Gateway' || "
        f"(object.metadata.name == '{GATEWAY_NAME}' && object.metadata.namespace == '{SYSTEM_NAMESPACE}' && "
        "!has(object.spec.infrastructure))",
        f"the Gateway of a serving stack is {SYSTEM_NAMESPACE}/{GATEWAY_NAME}, without infrastructure",
    ),
    Validation(
        "object == null || object.kind != 'GatewayClass' || "
        f"(object.spec.controllerName == '{CONTROLLER}' && !has(object.spec.parametersRef))",
        f"the GatewayClass of a serving stack is of controller {CONTROLLER}, without parameters",
    ),
    Validation(
        "object == null || object.kind != 'ReferenceGrant' || "
        f"object.metadata.namespace == '{CERTIFICATE_NAMESPACE}'",
        f"the ReferenceGrant of a serving stack is in namespace {CERTIFICATE_NAMESPACE}",
    ),
    Validation(
        "object == null || object.kind != 'ClientTrafficPolicy' || "
        f"(object.metadata.name in ['{POLICY}', '{REQUESTS}'] && "
        f"object.metadata.namespace == '{SYSTEM_NAMESPACE}')",
        f"the ClientTrafficPolicies of a serving stack are {POLICY} and {REQUESTS} in {SYSTEM_NAMESPACE}",
    ),
    Validation(
        "object == null || object.kind != 'BackendTrafficPolicy' || "
        f"(object.metadata.name == '{LIMITS}' && object.metadata.namespace == '{SYSTEM_NAMESPACE}')",
        f"the BackendTrafficPolicy of a serving stack is {SYSTEM_NAMESPACE}/{LIMITS}",
    ),
    *_forms({kind: {"spec": form, "status": ANY} for kind, form in GATEWAYS.items()}),
)
"""Settings of infrastructure and parameters can change the pods of the gateway's proxy."""

_CARDS = (
    *_LABELED,
    Validation(
        f"object == null || object.metadata.name == '{cloud_components.NIC_POLICY_KEY}'",
        f"the NicClusterPolicy of a serving stack is {cloud_components.NIC_POLICY_KEY}",
    ),
    *_forms({NIC_CLUSTER_POLICY.kind: {"spec": CARDS, "status": ANY}}),
)
"""The operator runs these images with every privilege on the nodes."""

_STORAGE = (
    *_LABELED,
    Validation(
        f"object == null || ([object.metadata.name, object.provisioner] in {_STORAGE_CLASSES})",
        "the StorageClass of a serving stack has the name and the driver that its cloud has for caches",
    ),
    Validation(
        "object == null || object.?parameters.orValue({}).all(key, !key.startsWith('csi.storage.k8s.io/'))",
        "the StorageClass of a serving stack names no Secret",
    ),
    Validation(
        "object == null || !object.metadata.?annotations.orValue({}).exists(key, "
        "key.endsWith('/is-default-class'))",
        "the StorageClass of a serving stack is not the cluster's default",
    ),
    *_forms({"StorageClass": STORAGE_CLASS}),
)
"""A driver reads the Secrets that a StorageClass names, with its own permissions."""

_ONLY_DRY_RUNS = (
    Validation("false", "Modelplane changes no CustomResourceDefinition: it only looks at them"),
)

_UNCHANGED = " && ".join(
    f"object.metadata.?{field} == oldObject.metadata.?{field}"
    for field in ("labels", "annotations", "finalizers", "ownerReferences")
)
_CHANGES_OF_NAMESPACES = (
    Validation(
        f"{_is_ours('oldObject')} && object.spec == oldObject.spec && {_UNCHANGED}",
        "Modelplane changes no namespace after it has made it",
    ),
)
"""Two Objects that make the same namespace at once both apply it, and the later one changes nothing."""


def build_policies(*, dry_runs: bool = False) -> list[Object]:
    """Return the policies and their bindings.

    ``dry_runs``: provider-kubernetes uses the identity. It looks at each object by applying it as a dry run,
    which writes nothing, and so no policy refuses one.
    """
    if not dry_runs:
        return _limits()
    definitions = [("apiextensions.k8s.io", "customresourcedefinitions")]
    documents = [
        *_limits(),
        *_policy("definitions", definitions, ("CREATE", "UPDATE", "DELETE"), _ONLY_DRY_RUNS),
        *_policy("namespace-changes", [("", "namespaces")], ("UPDATE",), _CHANGES_OF_NAMESPACES),
    ]
    for document in documents:
        if "matchConditions" in document["spec"]:
            document["spec"]["matchConditions"].append(
                {"name": "writes", "expression": "!request.?dryRun.orValue(false)"}
            )
    return documents


def _limits() -> list[Object]:
    gateways, storage = workload_kinds.GATEWAYS, (workload_kinds.STORAGE_CLASS,)
    cards = (workload_kinds.NIC_CLUSTER_POLICY,)
    apart = (*gateways, *storage, *cards)
    rows = [row for row in workload_kinds.rows(Place.CLUSTERS) if row not in apart]
    written = [(row.group, row.plural) for row in rows]
    pods = [(row.group, row.plural) for row in rows if row.templates]
    return [
        *_policy("objects", written, ("CREATE", "UPDATE", "DELETE"), _OBJECTS),
        *_policy("pods", pods, ("CREATE", "UPDATE"), PODS, TEMPLATES),
        *(
            policy
            for part, kinds, validations in (
                ("gateways", gateways, _GATEWAYS),
                ("storage", storage, _STORAGE),
                ("cards", cards, _CARDS),
            )
            for policy in _policy(
                part,
                [(row.group, row.plural) for row in kinds],
                ("CREATE", "UPDATE", "DELETE"),
                validations,
            )
        ),
        *_keys([*written, *((row.group, row.plural) for row in (*gateways, *storage))]),
        *_policy("namespaces", [("", "namespaces")], ("CREATE",), _NAMESPACES),
    ]


def _keys(kinds: list[tuple[str, str]]) -> list[Object]:
    """Return the policy of labels and annotations, with the list of the cluster's administrator."""
    policy, binding = _policy("keys", kinds, ("CREATE", "UPDATE"), KEYS, KEY_VARIABLES)
    policy["spec"]["paramKind"] = PARAMETER_KIND
    binding["spec"]["paramRef"] = PARAMETER
    return [policy, binding]


def _policy(
    part: str,
    kinds: list[tuple[str, str]],
    operations: tuple[str, ...],
    validations: tuple[Validation, ...],
    variables: dict[str, str] | None = None,
) -> list[Object]:
    name = f"{INFERENCE_CLUSTER}-{part}"
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["*"],
                    "operations": [*operations],
                    "resources": sorted(plural for other, plural in kinds if other == group),
                }
                for group in sorted({group for group, _ in kinds})
            ]
        },
        "matchConditions": [{"name": "identity", "expression": f"request.userInfo.username == '{SUBJECT}'"}],
        "validations": [validation.build_manifest() for validation in validations],
    }
    if variables:
        spec["variables"] = [
            {"name": called, "expression": expression} for called, expression in variables.items()
        ]
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": LABELS},
            "spec": spec,
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
