"""``modelplane envoy``: write Envoy's first configuration, then become Envoy."""

import os
from pathlib import Path

import click


@click.command(hidden=True)
@click.option("--dir", "directory", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--port", required=True, type=int, help="Where requests are accepted, on 127.0.0.1.")
def envoy(directory: Path, port: int) -> None:
    """Run the Envoy of this machine."""
    from modelplane.local import envoy as proxy
    from modelplane.routing.table import Listener

    proxy.prepare(directory, (Listener("front-door", "127.0.0.1", port),))
    argv = proxy.argv(directory)
    # Its configuration names files relative to the directory. The pid stays, and the lock with it.
    os.chdir(directory)
    os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted
