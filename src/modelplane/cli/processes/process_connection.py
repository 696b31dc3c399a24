"""Connection to the API server, for commands that run in a cluster or beside one."""

from typing import TYPE_CHECKING

from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.kube.fence import Fence
    from modelplane.kube.resources import Known


def connect(
    kubeconfig: str | None, *, fence: "Fence | None" = None, known: "Known | None" = None
) -> "Client":
    """Return a client from a kubeconfig, or without one from this pod's service account."""
    from modelplane.kube import resources
    from modelplane.kube.client import Client

    known = known or resources.find_known
    try:
        if kubeconfig is None:
            return Client.connect_in_cluster(fence=fence, known=known)
        return Client.from_kubeconfig(kubeconfig, fence=fence, known=known)
    except ValueError as error:
        outside = f'correct "{kubeconfig}", or name another file with --kubeconfig'
        remedy = "outside a pod, give --kubeconfig" if kubeconfig is None else outside
        raise UserError(f"{error}: {remedy}") from error
