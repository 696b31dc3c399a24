"""Requirements of an inference cluster: the fleet's identity, its permissions, and their limits.

Applied to the cluster that is to be registered. A token of the identity goes, in a kubeconfig, into a Secret
of the control plane.
"""

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose import copy_access
from modelplane.compose.cluster.cluster_kubeconfig import INSTALLER
from modelplane.install.cluster_admission import LABELS, build_policies
from modelplane.install.identity_permissions import (
    BIND_COPIES,
    INFERENCE_CLUSTER,
    OWN_TOKEN,
    list_cluster_rules,
    list_copy_rules,
    list_crossplane_rules,
)
from modelplane.install.installation_options import CREDENTIAL_LIFETIME, build_namespace
from modelplane.install.roles import RBAC, Role, build_account
from modelplane.kube.resources import Object


def build_manifests(*, crossplane: bool = False, installer: bool = False) -> list[Object]:
    """Return the objects, in an order in which nothing needs later objects.

    ``crossplane``: provider-kubernetes is to use the identity too. ``installer``: with the identity that
    installs charts.
    """
    everywhere = (*list_cluster_rules(), BIND_COPIES)
    if crossplane:
        everywhere = list_crossplane_rules((*everywhere, *list_copy_rules()))
    identity = build_account(INFERENCE_CLUSTER)
    return [
        build_namespace(),
        # The limits before the permissions.
        *build_policies(dry_runs=crossplane),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": INFERENCE_CLUSTER, "namespace": SYSTEM_NAMESPACE, "labels": LABELS},
            "automountServiceAccountToken": False,
        },
        Role("ClusterRole", copy_access.ROLE, list_copy_rules(), LABELS).build_manifest(),
        *Role("ClusterRole", INFERENCE_CLUSTER, everywhere, LABELS).bound_to(identity),
        *Role("Role", INFERENCE_CLUSTER, OWN_TOKEN, LABELS).bound_to(identity, SYSTEM_NAMESPACE),
        *(_installer() if installer else ()),
    ]


def _installer() -> tuple[Object, Object]:
    """Return the identity that installs charts, and its permission: everything.

    Charts contain ClusterRoles, webhooks and CustomResourceDefinitions. Kubernetes lets an identity grant
    only what it has, so no smaller role installs whatever charts there are.
    """
    return (
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": INSTALLER, "namespace": SYSTEM_NAMESPACE, "labels": LABELS},
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": INSTALLER, "labels": LABELS},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [build_account(INSTALLER)],
        },
    )


def build_instructions(
    lifetime: str = CREDENTIAL_LIFETIME, *, crossplane: bool = False, installer: bool = False
) -> str:
    """Return instructions for the manifests, as comments to print before them.

    ``lifetime`` is that of the first token, as kubectl takes it.
    """
    steps = (_STEPS + (_INSTALLER_STEPS if installer else "")).replace("LIFETIME", lifetime)
    command = "modelplane install --inference-cluster"
    options = (" --crossplane" if crossplane else "") + (" --installer" if installer else "")
    steps = steps.replace(command, command + options)
    return "".join(f"# {line}".rstrip() + "\n" for line in steps.splitlines())


_FILE = "gpu-1.kubeconfig"
_INSTALLER_FILE = "gpu-1-installer.kubeconfig"

_STEPS = f"""\
Permissions of Modelplane on this cluster. To register the cluster as "gpu-1" or replace its credential,
run these commands. GPU and CONTROL are the kubectl contexts of the cluster and the control plane:

  modelplane install --inference-cluster | kubectl --context GPU apply -f -
  token=$(kubectl --context GPU create token {INFERENCE_CLUSTER} -n {SYSTEM_NAMESPACE} \\
    --duration LIFETIME)
  (umask 077; kubectl --context GPU config view --raw --minify --flatten > {_FILE})
  kubectl config --kubeconfig={_FILE} unset users
  kubectl config --kubeconfig={_FILE} set-credentials modelplane --token="$token"
  kubectl config --kubeconfig={_FILE} set-context --current --user=modelplane
  kubectl --context CONTROL create secret generic gpu-1-kubeconfig -n {SYSTEM_NAMESPACE} \\
    --from-file=kubeconfig={_FILE} --dry-run=client -o yaml |
    kubectl --context CONTROL apply --server-side --force-conflicts -f -
  rm {_FILE}

Then enter the Secret in spec.cluster.existing.secretRef of the InferenceCluster.

The token is valid for LIFETIME, or for the cluster's maximum if that is shorter. The controllers renew
the token after half of this time, and write the new token to the Secret. Under Crossplane, the token is
not renewed: choose a longer --credential-lifetime, and repeat the commands before the time in the
InferenceCluster's status.credential.expirationTime.
"""

_INSTALLER_STEPS = f"""\

To let Modelplane install charts on the cluster, also run these commands. The ServiceAccount
"{INSTALLER}" is an administrator of the cluster (cluster-admin):

  token=$(kubectl --context GPU create token {INSTALLER} -n {SYSTEM_NAMESPACE} --duration LIFETIME)
  (umask 077; kubectl --context GPU config view --raw --minify --flatten > {_INSTALLER_FILE})
  kubectl config --kubeconfig={_INSTALLER_FILE} unset users
  kubectl config --kubeconfig={_INSTALLER_FILE} set-credentials installer --token="$token"
  kubectl config --kubeconfig={_INSTALLER_FILE} set-context --current --user=installer
  kubectl --context CONTROL create secret generic gpu-1-installer -n {SYSTEM_NAMESPACE} \\
    --from-file=kubeconfig={_INSTALLER_FILE} --dry-run=client -o yaml |
    kubectl --context CONTROL apply --server-side --force-conflicts -f -
  rm {_INSTALLER_FILE}

Then enter the Secret in spec.cluster.existing.installerSecretRef of the InferenceCluster. The controllers
renew this token too. Without this token, installed charts stay as they are.
"""
