"""How a command that runs in a cluster, or beside one, reaches the API server."""

from typing import TYPE_CHECKING

from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.kube.fence import Fence


def connect(kubeconfig: str | None, fence: "Fence | None" = None) -> "Client":
    """Return a client by a kubeconfig, or by the service account of the pod that this runs in."""
    from modelplane.kube.client import Client

    try:
        if kubeconfig is None:
            return Client.in_cluster(fence=fence)
        return Client.from_kubeconfig(kubeconfig, fence=fence)
    except ValueError as error:
        outside = f'give --kubeconfig another file than "{kubeconfig}", or mend it'
        remedy = "outside a pod, give --kubeconfig" if kubeconfig is None else outside
        raise UserError(f"{error}: {remedy}") from error
