"""``modelplane heartbeat``: tell a control plane that this cluster lives."""

import click

from modelplane.cli.options import format_example
from modelplane.cli.processes.long_running import connect


@click.command(epilog=format_example("modelplane heartbeat gpu-1 --kubeconfig fleet.kubeconfig"))
@click.argument("cluster")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    required=True,
    help=("Kubeconfig of the control plane. The user needs permission to patch this cluster's Lease."),
)
def heartbeat(cluster: str, *, kubeconfig: str) -> None:
    """Report that a cluster is alive, until stopped.

    CLUSTER is the name of the InferenceCluster that the command runs on. Failover considers this heartbeat in
    addition to the API server and the replicas.
    """
    import asyncio
    import socket

    from modelplane.controllers.clusters.heartbeats import renew

    async def run() -> None:
        async with connect(kubeconfig) as client:
            await renew(client, cluster, socket.gethostname(), click.echo)

    asyncio.run(run())
