"""Admission policy for workloads of this machine that have Modelplane's label.

The node agent runs some programs only for pods that the controllers composed, and knows those by the label of
their workload (see ``composed`` of the node agent). A role cannot limit a label, so the API server checks it.
"""

from typing import Final

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.kube.resources import Object
from modelplane.local.kubernetes.machine_permissions import CONTROLLERS

_API = "admissionregistration.k8s.io/v1"
_NAME: Final = "modelplane-workloads"
_WRITERS: Final = (
    CONTROLLERS,
    "system:masters",
    # Kubernetes' own controllers, and those of a fleet that has registered this machine as its cluster.
    "system:serviceaccounts:kube-system",
    f"system:serviceaccounts:{SYSTEM_NAMESPACE}",
)
"""Groups of the identities that may."""


def manifests() -> list[Object]:
    """Return the admission policy and its binding."""
    ours = f"{{}}.metadata.?labels[?'{labels.MANAGED_BY}'].orValue('') == 'modelplane'"
    is_one = f"{ours.format('object')} || (oldObject != null && {ours.format('oldObject')})"
    is_writer = f"request.userInfo.?groups.orValue([]).exists(group, group in {list(_WRITERS)})"
    return [
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": _NAME},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["apps", "batch"],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["deployments", "jobs", "replicasets"],
                        }
                    ]
                },
                "validations": [
                    {
                        "expression": f"!({is_one}) || {is_writer}",
                        "message": f"only Modelplane writes a workload with the label {labels.MANAGED_BY}="
                        "modelplane: change the object that the workload is made for, or remove the label",
                        "reason": "Forbidden",
                    }
                ],
            },
        },
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _NAME},
            "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
        },
    ]
