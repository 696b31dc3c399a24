"""``modelplane metrics``: serve the gateway's counts as the external metrics API of Kubernetes."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.cli.options import format_example
from modelplane.cli.processes.long_running import connect, log_to_stderr
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.kube.client import Client
    from modelplane.proxy.gateway_metrics import Source

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class _Options:
    address: str
    tls_cert: Path
    tls_key: Path
    client_ca: Path
    client_name: tuple[str, ...]
    kubeconfig: str | None
    namespace: str
    gateway_dir: Path | None
    gateway_service: str


@click.command(
    epilog=format_example(
        "modelplane metrics --address 0.0.0.0:6443 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt "
        "--gateway-service modelplane-gateway"
    )
)
@click.option("--address", required=True, metavar="HOST:PORT", help="Address for HTTPS.")
@click.option("--tls-cert", required=True, type=_FILE, help="Certificate for SERVICE.NAMESPACE.svc.")
@click.option("--tls-key", required=True, type=_FILE, help="The certificate's private key.")
@click.option(
    "--client-ca",
    required=True,
    type=_FILE,
    help="CA of the API server's client certificate (requestheader-client-ca-file).",
)
@click.option(
    "--client-name",
    multiple=True,
    metavar="NAME",
    help=("Common name of the client certificate (requestheader-allowed-names). Default: any name."),
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="Kubeconfig of the control plane. Default: the service account of this pod.",
)
@click.option(
    "--namespace",
    default=SYSTEM_NAMESPACE,
    help=f"Namespace of the gateway Service. Default: {SYSTEM_NAMESPACE}.",
)
@click.option(
    "--gateway-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory with the configuration of the local Envoy.",
)
@click.option(
    "--gateway-service", default="", metavar="NAME", help="Service of the Envoy pods in the cluster."
)
@click.option("--debug", is_flag=True, help="Log every step.")
def metrics(debug: bool, **options: object) -> None:
    """Serve the gateway's request counts as external.metrics.k8s.io, until SIGTERM or Ctrl-C."""
    chosen = _Options(**options)  # type: ignore[arg-type]  # click has checked them
    if bool(chosen.gateway_dir) == bool(chosen.gateway_service):
        raise click.UsageError("set either --gateway-dir or --gateway-service")
    log_to_stderr(debug=debug, format="text")
    asyncio.run(_run(chosen))


async def _run(options: _Options) -> None:
    from modelplane.controllers import external_metrics_server
    from modelplane.controllers.fleet_resources import find_known
    from modelplane.host.signals import run_until_signalled

    host, _, port = options.address.rpartition(":")
    if not host or not port.isdecimal():
        raise click.UsageError(f'--address "{options.address}" is not HOST:PORT')
    try:
        context = external_metrics_server.context(options.tls_cert, options.tls_key, options.client_ca)
    except OSError as error:
        raise UserError(f"cannot use the certificates: {error}: use PEM files") from error
    async with connect(options.kubeconfig, known=find_known) as client:
        served = external_metrics_server.ExternalMetrics(client, _source(options, client))
        names = frozenset(options.client_name)
        with external_metrics_server.Server((host.strip("[]"), int(port)), context, served, names) as server:
            threading.Thread(target=server.serve_forever, name="external metrics", daemon=True).start()
            await run_until_signalled(served.serve())
            server.shutdown()


def _source(options: _Options, client: "Client") -> "Source":
    from modelplane.proxy.gateway_metrics import DirectorySource, PodSource

    if options.gateway_dir:
        return DirectorySource(options.gateway_dir)
    return PodSource(client, options.namespace, options.gateway_service)
