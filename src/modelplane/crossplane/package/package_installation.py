"""Objects that install the packages, dependencies first, and the manifests to apply before them.

One rule: no permission that Crossplane already has. A composed kind gets all seven verbs, because Crossplane
requests each and warns of a missing one although it never updates.

The Configuration alone would do, because Crossplane installs its dependencies. They are listed here so that
their versions and the provider's options are visible and can be changed.
"""

from itertools import groupby

from modelplane import __version__
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.crossplane.package.metadata import (
    CONFIGURATION,
    FUNCTION,
    Document,
    PackageKind,
    Registry,
    Version,
    installed_name,
    stream,
    to_yaml,
)
from modelplane.crossplane.package.package_contents import (
    HELM_VERSION,
    PROVIDER_HELM,
    PROVIDER_KUBERNETES,
    PROVIDER_VERSION,
)
from modelplane.crossplane.package.touched import COMPOSED, REQUIRED, Grant, Touched
from modelplane.install import crossplane_gateway

_RUNTIME_CONFIG = "modelplane-provider-kubernetes"
_PROVIDER_OPTIONS = ("--enable-watches", "--sanitize-secrets")


def installation() -> tuple[Document, ...]:
    """Return the options of provider-kubernetes, both providers, the function and the Configuration."""
    registry, tag = Registry(), Version(__version__).tag
    function, configuration = registry.address(FUNCTION), registry.address(CONFIGURATION)
    provider = _package(
        PackageKind.PROVIDER,
        installed_name(PROVIDER_KUBERNETES),
        f"{PROVIDER_KUBERNETES}:{PROVIDER_VERSION.tag}",
        runtimeConfigRef={"name": _RUNTIME_CONFIG},
    )
    helm = f"{PROVIDER_HELM}:{HELM_VERSION.tag}"
    return (
        _runtime_config(),
        provider,
        _package(PackageKind.PROVIDER, installed_name(PROVIDER_HELM), helm),
        _package(PackageKind.FUNCTION, installed_name(function), f"{function}:{tag}"),
        _package(PackageKind.CONFIGURATION, "modelplane", f"{configuration}:{tag}"),
    )


def _package(kind: PackageKind, name: str, address: str, **options: object) -> Document:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": str(kind),
        "metadata": {"name": name},
        "spec": {"package": address, **options},
    }


def _runtime_config() -> Document:
    container = {"name": "package-runtime", "args": list(_PROVIDER_OPTIONS)}
    pods = {"selector": {}, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "pkg.crossplane.io/v1beta1",
        "kind": "DeploymentRuntimeConfig",
        "metadata": {"name": _RUNTIME_CONFIG},
        "spec": {"deploymentTemplate": {"spec": pods}},
    }


READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")

AGGREGATE = "rbac.crossplane.io/aggregate-to-crossplane"


_MISSING = [resource for resource in (*COMPOSED, *REQUIRED) if resource.grant is Grant.PREREQUISITES]


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


def _policy() -> tuple[Document, ...]:
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


def prerequisites() -> tuple[Document, ...]:
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
                for (group, read_only), kinds in groupby(sorted(_MISSING, key=_rule), key=_rule)
            ],
        },
        *crossplane_gateway.build_permissions(),
        *_policy(),
    )


def manifest() -> str:
    """Return the prerequisites as YAML, with the reason for each permission."""
    namespace, role, *policy = prerequisites()
    rules = role.pop("rules")
    written = [stream((namespace, role)), "rules:\n", *(_reasons(rule) + to_yaml([rule]) for rule in rules)]
    return "".join([*written, "---\n", stream(policy)])


def _reasons(rule: Document) -> str:
    why = {(resource.group, resource.plural): resource.why for resource in _MISSING}
    [group] = rule["apiGroups"]
    return "".join(f"# {plural}: {why[group, plural]}\n" for plural in rule["resources"])


def _rule(touched: Touched) -> tuple[str, bool]:
    return touched.group, touched.read_only
