"""``modelplane gateway``: configure the Envoy of this pod from what the controllers publish."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import click

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.cli.options import format_example
from modelplane.cli.processes.long_running import FORMATS, connect, log_to_stderr, serve_health


@dataclass(frozen=True, slots=True)
class _Options:
    directory: Path
    kubeconfig: str | None
    namespace: str
    address: str
    port: int
    metrics_address: str | None
    drain_seconds: float


@click.command(epilog=format_example("modelplane gateway --dir /var/run/envoy"))
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of `modelplane envoy --dir`.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Kubeconfig of the control plane. Default: the service account of this pod.",
)
@click.option(
    "--namespace",
    default=SYSTEM_NAMESPACE,
    help=f"Namespace of the published configuration. Default: {SYSTEM_NAMESPACE}.",
)
@click.option(
    "--address",
    default="0.0.0.0",  # noqa: S104 - in a pod of its own
    help="Address on which Envoy accepts requests. Default: 0.0.0.0.",
)
@click.option(
    "--port",
    default=8080,
    type=click.IntRange(1, 65535),
    help="Port on which Envoy accepts requests. Default: 8080.",
)
@click.option(
    "--metrics-address", metavar="HOST:PORT", help="Address for health checks and metrics over HTTP."
)
@click.option(
    "--drain-seconds",
    default=20.0,
    type=click.FloatRange(min=0),
    help="How long to fail readiness before exiting, so that load balancers stop sending requests. "
    "Default: 20.",
)
@click.option(
    "--log-format",
    type=click.Choice(tuple(FORMATS)),
    default="text",
    help="Format of the log. Default: text.",
)
@click.option("--debug", is_flag=True, help="Log every step.")
def gateway(log_format: str, debug: bool, **options: object) -> None:
    """Configure the Envoy in this pod from the published configuration, until SIGTERM or Ctrl-C."""
    log_to_stderr(debug=debug, format=log_format)
    asyncio.run(_run(_Options(**options)))  # type: ignore[arg-type]  # click has checked them


async def _run(options: _Options) -> None:
    from modelplane.host.signals import run_until_signalled
    from modelplane.proxy import envoy_directory, gateway_metrics
    from modelplane.proxy.companion import Counting, Gateway
    from modelplane.proxy.follower import GatewayFollower
    from modelplane.telemetry.metric_definitions import Program

    async with connect(options.kubeconfig) as client:
        follower = GatewayFollower(
            client,
            options.namespace,
            directory=options.directory,
            write=envoy_directory.write,
            listens=(options.address, options.port),
        )
        counting = Counting(client, options.directory)
        running = Gateway(follower, counting, options.directory, options.drain_seconds)
        with serve_health(
            options.metrics_address,
            Program.GATEWAY,
            lambda: running.problem,
            lambda: gateway_metrics.read_samples(options.directory),
        ):
            await run_until_signalled(running.run())
