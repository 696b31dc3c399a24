"""``modelplane controller``: reconcile a fleet from a control plane, with or without leader election."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.cli.exit_statuses import FAILED, NOT_OURS
from modelplane.cli.options import (
    add_credential_lifetime_option,
    add_gateway_address_option,
    format_example,
    parse_seconds,
)
from modelplane.cli.processes.long_running import FORMATS, connect, log_to_stderr, serve_health

if TYPE_CHECKING:
    from modelplane.controllers.gateway.gateway_manager import GatewayManager
    from modelplane.controllers.helm.helm_program import Program
    from modelplane.controllers.lease_thread import LeaseThread
    from modelplane.controllers.manager import Manager
    from modelplane.kube.client import Client
    from modelplane.kube.fence import Fence
    from modelplane.proxy.interface import Proxy

_log = logging.getLogger(__name__)

_GATEWAY_ONLY = "gateway"


@dataclass(frozen=True, slots=True)
class _Options:
    kubeconfig: str | None
    leader_elect: bool
    namespace: str
    gateway_dir: Path | None
    gateway_address: str
    gateway_service: str
    credential_lifetime: str
    helm_dir: Path | None
    metrics_address: str | None
    only: str | None


@click.command(epilog=format_example("modelplane controller --kubeconfig fleet.kubeconfig"))
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Kubeconfig of the control plane. Default: the service account of this pod.",
)
@click.option(
    "--leader-elect",
    is_flag=True,
    help="Reconcile only while holding a Lease, so that you can run several replicas.",
)
@click.option(
    "--namespace",
    default=SYSTEM_NAMESPACE,
    help="Namespace of the Lease, the gateway Service, and the gateway configuration. "
    f"Default: {SYSTEM_NAMESPACE}.",
)
@click.option(
    "--gateway-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory with the local Envoy's configuration.",
)
@add_gateway_address_option("Address on which the local Envoy accepts requests.")
@click.option(
    "--gateway-service",
    default="",
    metavar="NAME",
    help=(
        "Service of the Envoy pods in the cluster, which read their configuration from "
        "ConfigMaps and Secrets."
    ),
)
@click.option(
    "--only",
    type=click.Choice([_GATEWAY_ONLY]),
    help=(
        "Only publish the configuration of the gateway, for a fleet under Crossplane. "
        "Requires --gateway-service."
    ),
)
@add_credential_lifetime_option
@click.option(
    "--helm-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory for Helm downloads. Default: the directory for temporary files.",
)
@click.option(
    "--metrics-address", metavar="HOST:PORT", help="Address for health checks and metrics over HTTP."
)
@click.option(
    "--log-format",
    type=click.Choice(tuple(FORMATS)),
    default="text",
    help="Format of the log. Default: text.",
)
@click.option("--debug", is_flag=True, help="Log every step.")
def controller(log_format: str, debug: bool, **options: object) -> None:
    """Run the controllers until SIGTERM or Ctrl-C."""
    chosen = _Options(**options)  # type: ignore[arg-type]  # click has checked them
    if chosen.gateway_dir and chosen.gateway_service:
        raise click.UsageError("--gateway-dir and --gateway-service can't be combined: omit one")
    if chosen.gateway_dir and ":" not in chosen.gateway_address:
        raise click.UsageError("--gateway-dir requires --gateway-address HOST:PORT")
    if chosen.only and not chosen.gateway_service:
        raise click.UsageError(f"--only {chosen.only} requires --gateway-service NAME")
    log_to_stderr(debug=debug, format=log_format)
    asyncio.run(_run(chosen))


async def _run(options: _Options) -> None:
    from modelplane.controllers import state_samples
    from modelplane.controllers.definition_check import NotOurs
    from modelplane.controllers.fleet_resources import find_known
    from modelplane.controllers.leader import Deposed
    from modelplane.host.signals import run_until_signalled
    from modelplane.telemetry import metrics, server, traces
    from modelplane.telemetry.metric_definitions import Program

    async with AsyncExitStack() as stack:
        election = _election(options)
        fence = election.fence if election else None
        client = await stack.enter_async_context(connect(options.kubeconfig, fence=fence, known=find_known))
        manager = _manager(options, client, fence)

        async def run_manager() -> None:
            metrics.set_leading(True)
            await manager.run()

        def find_problem() -> str | None:
            return (election.problem if election else None) or manager.problem

        stack.enter_context(traces.export_spans("modelplane-controller"))
        loop = asyncio.get_running_loop()
        state = server.route_to_loop(loop, manager.state)
        checks = serve_health(
            options.metrics_address,
            Program.CONTROLLER,
            server.route_to_loop(loop, find_problem),
            lambda: state_samples.samples(state()),
        )
        stack.enter_context(checks)
        if options.gateway_dir:
            from modelplane.proxy.envoy_directory import rotate

            await stack.enter_async_context(rotate(options.gateway_dir))
        try:
            await run_until_signalled(election.lead(run_manager) if election else run_manager())
        except (Deposed, NotOurs) as error:
            _log.error("%s", error)
            raise click.exceptions.Exit(NOT_OURS if isinstance(error, NotOurs) else FAILED) from error


def _manager(options: _Options, client: "Client", fence: "Fence | None") -> "Manager | GatewayManager":
    """Return the control loops: all of them, or those of the gateway only."""
    from modelplane.controllers.gateway.gateway_manager import GatewayManager
    from modelplane.controllers.manager import Manager
    from modelplane.host import addresses

    proxy = _proxy(options, client)
    if options.only and proxy is not None:
        return GatewayManager(client, proxy)
    return Manager(
        client,
        proxy=proxy,
        dial=addresses.find_bound,
        fence=fence,
        credential_lifetime_s=parse_seconds(options.credential_lifetime, ""),
        helm=_helm(options.helm_dir),
    )


def _election(options: _Options) -> "LeaseThread | None":
    from functools import partial

    from modelplane.controllers.lease_thread import LeaseThread

    if not options.leader_elect:
        return None
    # A client and a thread of its own: the work must not hold up the lease.
    return LeaseThread(partial(connect, options.kubeconfig), options.namespace)


def _helm(folder: Path | None) -> "Program":
    """Return the helm program: that of the local control plane's binary, else one on PATH."""
    import shutil

    from modelplane.controllers.helm.helm_program import Program
    from modelplane.host.errors import LocalError
    from modelplane.local import binary

    try:
        built = binary.find()
    except (LocalError, ImportError):  # an installation without the extra "local" has no cache of builds
        built = None
    if built is not None:
        return Program((str(built), "helm"), folder)
    on_path = shutil.which("helm")
    return Program((on_path,) if on_path else (), folder)


def _without_module() -> str:
    """Return why the gateway's pods have no module, as far as their image, which is also this one, tells."""
    from modelplane.host.errors import LocalError
    from modelplane.local import gateway_module

    try:
        library = gateway_module.find()
    except LocalError as error:
        return str(error)
    return "" if library else "the image doesn't contain the gateway module: use an image that contains it"


def _proxy(options: _Options, client: "Client") -> "Proxy | None":
    from modelplane.proxy import envoy_directory
    from modelplane.proxy.proxies import GatewayDeployment, GatewayDirectory

    if options.gateway_service:
        return GatewayDeployment(
            client, options.namespace, options.gateway_service, without_module=_without_module()
        )
    if options.gateway_dir:
        return GatewayDirectory(options.gateway_dir, options.gateway_address, envoy_directory.write)
    return None
