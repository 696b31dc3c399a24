"""``modelplane gateway``: configure the Envoy beside it from what the controllers publish in a cluster."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import click

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.cli.connection import connect
from modelplane.cli.health import health
from modelplane.cli.log_format import FORMATS, log_to_stderr


@dataclass(frozen=True, slots=True)
class _Options:
    directory: Path
    kubeconfig: str | None
    namespace: str
    address: str
    port: int
    metrics_address: str | None
    drain_seconds: float


@click.command()
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where `modelplane envoy --dir` runs Envoy.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="The control plane, and who to be there; without it, the service account of this pod.",
)
@click.option(
    "--namespace", default=SYSTEM_NAMESPACE, show_default=True, help="Where the configuration is published."
)
@click.option("--address", default="0.0.0.0", show_default=True, help="Where Envoy accepts requests.")  # noqa: S104 - in a pod of its own
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65535))
@click.option("--metrics-address", metavar="HOST:PORT", help="Where to answer for health and metrics.")
@click.option(
    "--drain-seconds",
    default=20.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="How long to be not ready before the end, so that load balancers move on.",
)
@click.option("--log-format", type=click.Choice(tuple(FORMATS)), default="text", show_default=True)
@click.option("--debug", is_flag=True, help="Log every step.")
def gateway(log_format: str, debug: bool, **options: object) -> None:
    """Keep the Envoy beside this process at what the controllers publish, until stopped."""
    log_to_stderr(debug=debug, format=log_format)
    asyncio.run(_run(_Options(**options)))  # type: ignore[arg-type]  # click has checked them


async def _run(options: _Options) -> None:
    from modelplane.host.signals import until_signalled
    from modelplane.proxy import files
    from modelplane.proxy.companion import Gateway
    from modelplane.proxy.follower import GatewayFollower
    from modelplane.telemetry.table import Program

    async with connect(options.kubeconfig) as client:
        follower = GatewayFollower(
            client,
            options.namespace,
            directory=options.directory,
            write=files.write,
            listens=(options.address, options.port),
        )
        running = Gateway(follower, options.directory, options.drain_seconds)
        with health(options.metrics_address, Program.GATEWAY, lambda: running.problem):
            await until_signalled(running.run())
