"""Requirements of an inference cluster: the fleet's identity, its permissions, and their limits.

Applied to the cluster that is to be registered. Its token goes, in a kubeconfig, into a Secret of the
control plane.
"""

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.install.admission import LABELS, policies
from modelplane.install.identity import namespace
from modelplane.install.permissions import INFERENCE_CLUSTER, Role, account, on_cluster
from modelplane.kube.resources import Object


def manifests() -> list[Object]:
    """Return the objects, in an order in which nothing needs later objects."""
    about = {"name": INFERENCE_CLUSTER, "namespace": SYSTEM_NAMESPACE, "labels": LABELS}
    return [
        namespace(),
        # The limits before the permissions.
        *policies(),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": about,
            "automountServiceAccountToken": False,
        },
        *Role("ClusterRole", INFERENCE_CLUSTER, on_cluster(), LABELS).bound_to(account(INFERENCE_CLUSTER)),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": about | {"annotations": {"kubernetes.io/service-account.name": INFERENCE_CLUSTER}},
            "type": "kubernetes.io/service-account-token",
        },
    ]


def instructions() -> str:
    """Return instructions for the manifests, as comments to print before them."""
    return "".join(f"# {line}".rstrip() + "\n" for line in _STEPS.splitlines())


_FILE = "gpu-1.kubeconfig"
_STEPS = f"""\
What a fleet may do on this cluster. To register the cluster as "gpu-1", where GPU and CONTROL are the
kubectl contexts of the two:

  modelplane install --inference-cluster | kubectl --context GPU apply -f -
  kubectl --context GPU wait --for=jsonpath='{{.data.token}}' -n {SYSTEM_NAMESPACE} \\
    secret/{INFERENCE_CLUSTER}
  token=$(kubectl --context GPU get secret {INFERENCE_CLUSTER} -n {SYSTEM_NAMESPACE} \\
    -o jsonpath='{{.data.token}}' | base64 -d)
  (umask 077; kubectl --context GPU config view --raw --minify --flatten > {_FILE})
  kubectl config --kubeconfig={_FILE} unset users
  kubectl config --kubeconfig={_FILE} set-credentials modelplane --token="$token"
  kubectl config --kubeconfig={_FILE} set-context --current --user=modelplane
  kubectl --context CONTROL create secret generic gpu-1-kubeconfig -n {SYSTEM_NAMESPACE} \\
    --from-file=kubeconfig={_FILE}
  rm {_FILE}

Then name the Secret in an InferenceCluster, under spec.cluster.existing.secretRef.
"""
