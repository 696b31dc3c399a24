"""``modelplane kubeconfig``: the path of the fleet's kubeconfig, for ``export KUBECONFIG=$(...)``."""

from pathlib import Path

import click

from modelplane.cli.machine.running import require_fleet
from modelplane.cli.options import add_home_option, format_example
from modelplane.local.home import choose_home


@click.command(epilog=format_example("export KUBECONFIG=$(modelplane kubeconfig)"))
@add_home_option
def kubeconfig(home: Path | None) -> None:
    """Print the path of the local fleet's kubeconfig."""
    place = choose_home(home)
    require_fleet(place)
    click.echo(place.kubeconfig)
