"""``modelplane function``: serve the composition function to Crossplane."""

import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from modelplane.cli.options import format_example
from modelplane.cli.processes.long_running import log_to_stderr
from modelplane.install.installation_options import Options, ServiceType
from modelplane.user_error import UserError

_DEFAULTS = Options()
_ANYWHERE = "0.0.0.0:9443"
_HERE = "127.0.0.1:9443"


@click.command(epilog=format_example("modelplane function --insecure"))
@click.option(
    "--address",
    metavar="HOST:PORT",
    help=f"Address to listen on. Default: {_ANYWHERE}, or {_HERE} with --insecure.",
)
@click.option(
    "--tls-certs-dir",
    envvar="TLS_SERVER_CERTS_DIR",
    type=click.Path(path_type=Path),
    help="Directory with tls.crt, tls.key, and the ca.crt that verifies clients.",
)
@click.option("--insecure", is_flag=True, help="Serve without encryption and without client certificates.")
@click.option(
    "--max-recv-message-size",
    "max_receive_mb",
    default=64,
    type=click.IntRange(min=1, max=1024),
    metavar="MB",
    help="Maximum size of a request. 1,000 clusters need about 5 MB. Default: 64.",
)
@click.option(
    "--gateway-image",
    envvar="MODELPLANE_GATEWAY_IMAGE",
    default=_DEFAULTS.image,
    metavar="IMAGE",
    help=f"Image for the gateway pods, with the Envoy backend. Default: {_DEFAULTS.image}.",
)
@click.option(
    "--gateway-replicas",
    envvar="MODELPLANE_GATEWAY_REPLICAS",
    default=_DEFAULTS.gateways,
    type=click.IntRange(min=1),
    help=f"Number of gateway pods, with the Envoy backend. Default: {_DEFAULTS.gateways}.",
)
@click.option(
    "--gateway-service-type",
    envvar="MODELPLANE_GATEWAY_SERVICE_TYPE",
    default=str(_DEFAULTS.gateway_service_type),
    type=click.Choice([str(service_type) for service_type in ServiceType]),
    help=f"Type of the gateway Service, with the Envoy backend. Default: {_DEFAULTS.gateway_service_type}.",
)
@click.option(
    "--metrics-address", metavar="HOST:PORT", help="Address for health checks and metrics over HTTP."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="json",
    help="Format of the log. Default: json.",
)
@click.option("--debug", is_flag=True, help="Log every step.")
def function(
    address: str | None,
    tls_certs_dir: Path | None,
    insecure: bool,
    max_receive_mb: int,
    metrics_address: str | None,
    log_format: str,
    debug: bool,
    **gateway: Any,
) -> None:
    """Serve the composition function to Crossplane over gRPC, until SIGTERM or Ctrl-C."""
    log_to_stderr(debug=debug, format=log_format)
    if tls_certs_dir is None and not insecure:
        raise UserError(
            "server certificates are missing: set --tls-certs-dir, or use --insecure to serve without "
            "authentication"
        )
    from modelplane.crossplane.function import server
    from modelplane.telemetry import metrics, traces
    from modelplane.telemetry.metric_definitions import Program
    from modelplane.telemetry.server import serve

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as running:
        running.enter_context(traces.export_spans("modelplane-function"))
        creds = None if insecure or tls_certs_dir is None else server.credentials(tls_certs_dir)
        running.enter_context(
            server.serving(
                address or (_HERE if creds is None else _ANYWHERE),
                creds,
                max_receive_bytes=max_receive_mb << 20,
                options=Options(
                    image=gateway["gateway_image"],
                    gateways=gateway["gateway_replicas"],
                    gateway_service_type=gateway["gateway_service_type"],
                ),
            )
        )
        if metrics_address:
            registry = metrics.build_registry(Program.FUNCTION)
            running.enter_context(
                serve(metrics_address, alive=lambda: None, ready=lambda: None, registry=registry)
            )
        stop.wait()
