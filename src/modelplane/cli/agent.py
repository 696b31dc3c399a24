"""``modelplane agent``: run this machine as a node of a control plane."""

from pathlib import Path

import click

from modelplane.cli.logs import log_to_stderr

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--kubeconfig", required=True, type=_FILE, help="The node's identity at the API server.")
@click.option("--node", required=True, help="The name of the Node.")
@click.option("--pool", required=True, help="The node pool that the Node belongs to.")
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the agent remembers its pods.",
)
@click.option(
    "--port", required=True, type=click.IntRange(1, 65535), help="Where logs are served to the API server."
)
@click.option("--tls-cert", required=True, type=_FILE, help="The certificate of the log server.")
@click.option("--tls-key", required=True, type=_FILE, help="The key of the log server.")
@click.option("--client-ca", required=True, type=_FILE, help="Who signs the API server's client certificate.")
def agent(
    kubeconfig: Path,
    node: str,
    pool: str,
    directory: Path,
    port: int,
    tls_cert: Path,
    tls_key: Path,
    client_ca: Path,
) -> None:
    """Run the node agent of this machine."""
    from modelplane.local.agent.logs import ServerSettings
    from modelplane.local.agent.main import Settings, run

    log_to_stderr()
    server = ServerSettings(port, str(tls_cert), str(tls_key), str(client_ca))
    run(Settings(kubeconfig.absolute(), node, pool, directory.absolute(), server))
