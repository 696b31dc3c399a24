"""``modelplane kubeconfig``: the path of the fleet's kubeconfig, for ``export KUBECONFIG=$(...)``."""

from pathlib import Path

import click

from modelplane.cli.errors import UserError
from modelplane.cli.options import home_option
from modelplane.local.home import home_directory


@click.command()
@home_option
def kubeconfig(home: Path | None) -> None:
    """Print the path of the kubeconfig, and nothing else."""
    path = home_directory(home).kubeconfig
    if not path.exists():
        raise UserError(f"there is no fleet in {path.parent}: run `modelplane up`")
    click.echo(path)
