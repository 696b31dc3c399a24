"""``modelplane envoy``: write Envoy's first configuration and become Envoy, or check the running one."""

import os
from pathlib import Path

import click

from modelplane.cli.machine.build_progress import WITHOUT_MODULE
from modelplane.user_error import UserError


@click.command(hidden=True)
@click.option("--dir", "directory", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--address", default="127.0.0.1", help="Address on which to accept requests.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port on which to accept requests.")
@click.option(
    "--memory-bytes",
    type=click.IntRange(min=128 << 20),
    default=1 << 30,
    help="Memory limit of Envoy. Near this limit, Envoy refuses requests.",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME:PORT",
    help="InferenceCluster for which Envoy is also the gateway, and the port for its requests.",
)
@click.option("--check", is_flag=True, help="Only check that the Envoy in the directory accepts requests.")
def envoy(
    directory: Path, address: str, port: int | None, memory_bytes: int, clusters: tuple[str, ...], check: bool
) -> None:
    """Run the Envoy of this machine, or of this pod."""
    from modelplane.gateway.destinations import Destinations
    from modelplane.gateway.envoy.access_log import STANDARD_OUTPUT
    from modelplane.gateway.route_table import Front, Listener
    from modelplane.host.addresses import is_loopback
    from modelplane.local import gateway_module
    from modelplane.proxy import admin, envoy_bootstrap, module
    from modelplane.proxy.envoy_directory import USAGE_LOG
    from modelplane.proxy.interface import FLEET_LISTENER, cluster_listener

    if check:
        if problem := admin.find_obstacle(directory):
            raise UserError(problem)
        return
    if port is None:
        raise click.UsageError("--port is missing")
    directory = directory.absolute()
    # Until the controllers publish the platform team's settings, the usual ones hold.
    destinations = Destinations(is_local=is_loopback(address))
    # In a pod, what it prints is collected.
    usage_log = USAGE_LOG if destinations.is_local else STANDARD_OUTPUT
    listener = Listener(
        FLEET_LISTENER, address, port, destinations=destinations, front=Front(), usage_log=usage_log
    )
    named = (cluster.rpartition(":") for cluster in clusters)
    listeners = (
        listener,
        *(Listener(cluster_listener(name), address, int(cluster_port)) for name, _, cluster_port in named),
    )
    library = gateway_module.find()
    without = envoy_bootstrap.prepare(directory, listeners, memory_bytes=memory_bytes, library=library)
    if without:
        click.echo(f"{WITHOUT_MODULE}: {without}", err=True)
    if problem := envoy_bootstrap.find_taken_port(directory) or envoy_bootstrap.find_missing_watches(
        directory
    ):
        raise UserError(problem)
    argv = envoy_bootstrap.build_argv(directory)
    # The configuration names files relative to the directory. exec keeps the pid, and with it the lock.
    os.chdir(directory)
    os.execve(argv[0], argv, {**os.environ, **module.build_environment(directory)})  # noqa: S606 - no shell is wanted
