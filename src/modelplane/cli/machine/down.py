"""``modelplane down``: stop the fleet on this machine, and with ``--purge`` delete its data."""

import time
from pathlib import Path

import click

from modelplane.cli.options import add_home_option, format_example
from modelplane.local.home import choose_home
from modelplane.local.supervision import lifecycle


@click.command(epilog=format_example("modelplane down --purge"))
@add_home_option
@click.option(
    "--cluster",
    metavar="NAME",
    help="Stop only this cluster. The next `modelplane up` starts it again.",
)
@click.option("--purge", is_flag=True, help="Also delete the fleet's data: objects, certificates, and logs.")
def down(home: Path | None, cluster: str | None, purge: bool) -> None:
    """Stop all of the fleet's processes, including models, and keep the fleet's data."""
    place = choose_home(home)
    begun = time.monotonic()
    if waiting := lifecycle.find_busy(place):
        click.echo(waiting)
    if cluster is not None:
        if purge:
            raise click.UsageError("--purge deletes the whole fleet: omit --cluster")
        _tell(lifecycle.hold(place, cluster), f"for cluster {cluster} in {place.root}", begun)
        return
    if lifecycle.is_supervised(place):
        click.echo(f"Stopping the fleet in {place.root}")
    stopped = lifecycle.stop(place) if place.settings.exists() else ()
    _tell(stopped, f"in {place.root}", begun)
    if purge and place.settings.exists():
        lifecycle.purge(place)
        click.echo(f"Deleted the fleet's data in {place.root}")


def _tell(stopped: tuple[str, ...], where: str, begun: float) -> None:
    if stopped:
        click.echo(f"Stopped {', '.join(stopped)} in {time.monotonic() - begun:.1f} s")
    else:
        click.echo(f"No processes are running {where}")
