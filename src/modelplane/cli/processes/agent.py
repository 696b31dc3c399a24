"""``modelplane agent``: run this machine as a node of a control plane."""

from pathlib import Path
from typing import Any

import click

from modelplane.cli.processes.long_running import log_to_stderr
from modelplane.host import addresses

_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)


def _share(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[int, int]:
    part, slash, parts = value.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise click.BadParameter('write it as "2/3"')
    return int(part), int(parts)


@click.command()
@click.option("--kubeconfig", required=True, type=_FILE, help="Kubeconfig with the node's identity.")
@click.option("--node", required=True, help="Name of the Node.")
@click.option("--pool", required=True, help="Node pool of the Node.")
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    help="Directory for the agent's record of its pods.",
)
@click.option(
    "--port",
    required=True,
    type=click.IntRange(1, 65535),
    help="Port of the log server, which the API server calls.",
)
@click.option("--tls-cert", required=True, type=_FILE, help="Certificate of the log server.")
@click.option("--tls-key", required=True, type=_FILE, help="Private key of the log server.")
@click.option("--client-ca", required=True, type=_FILE, help="CA of the API server's client certificate.")
@click.option(
    "--pod-addresses",
    "pod_cidr",
    default=addresses.find_cidr(0),
    help=f"Pod CIDR of this node, within {addresses.POD_CIDR}. Default: {addresses.find_cidr(0)}.",
)
@click.option(
    "--share",
    default="1/1",
    metavar="I/N",
    callback=_share,
    help=("Index of this node among the N nodes that share the devices of this machine. Default: 1/1."),
)
@click.option(
    "--cpu-devices",
    type=click.IntRange(1, 16),
    default=1,
    help="Number of devices that the CPUs count as if there is no GPU. Default: 1.",
)
@click.option(
    "--container-engine",
    type=click.Choice(["auto", "none", "docker", "podman", "nerdctl"]),
    default="auto",
    help=(
        "Container runtime for pod images. auto uses the first container runtime that "
        "answers, otherwise processes. Default: auto."
    ),
)
@click.option(
    "--host-commands",
    is_flag=True,
    help="Allow pods that run as processes to execute any program on this machine.",
)
@click.option(
    "--private",
    multiple=True,
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIRECTORY",
    help="Directory to hide from pods that run as processes, in addition to --dir.",
)
def agent(port: int, tls_cert: Path, tls_key: Path, client_ca: Path, **options: Any) -> None:
    """Run the node agent of this machine."""
    from ipaddress import IPv4Network

    from modelplane.kubelet.local_devices import Share
    from modelplane.kubelet.log_server import ServerSettings
    from modelplane.kubelet.main import AgentSettings, run
    from modelplane.kubelet.runtime.container_cli import Choice

    log_to_stderr()
    server = ServerSettings(port, str(tls_cert), str(tls_key), str(client_ca))
    pod_cidr, (part, parts) = IPv4Network(options.pop("pod_cidr")), options.pop("share")
    share = Share(part, parts, options.pop("cpu_devices"))
    engine = Choice(options.pop("container_engine"))
    run(AgentSettings(server=server, addresses=pod_cidr, share=share, container_engine=engine, **options))
