"""Errors of API servers as commands print them: what the server answered, and the remedy."""

from modelplane.kube.errors import Forbidden, KubernetesError, NotFound, Unreachable

_REMEDIES = {
    Forbidden: "ask the cluster's administrator for that permission, or use another --kubeconfig",
    NotFound: "check that Modelplane is installed, or select another control plane with --kubeconfig",
    Unreachable: "check that the control plane is running, or select another one with --kubeconfig",
}


def explain_error(error: KubernetesError) -> str:
    """Return the cause of an API server's error, and the remedy."""
    remedy = next((text for type_, text in _REMEDIES.items() if isinstance(error, type_)), "try again")
    return f"{error}: {remedy}"
