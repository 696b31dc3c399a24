"""``modelplane down``: stop the fleet on this machine, and with ``--purge`` forget it."""

import time
from pathlib import Path

import click

from modelplane.cli.options import home_option
from modelplane.local import lifecycle
from modelplane.local.home import home_directory


@click.command()
@home_option
@click.option("--purge", is_flag=True, help="Delete its data too: every object, certificate and log.")
def down(home: Path | None, purge: bool) -> None:
    """Stop every process of the fleet, models included. Its data stays."""
    place = home_directory(home)
    begun = time.monotonic()
    if lifecycle.supervised(place):
        click.echo(f"Stopping the fleet in {place.root}")
    stopped = lifecycle.stop(place) if place.settings.exists() else ()
    if stopped:
        click.echo(f"Stopped {', '.join(stopped)} in {time.monotonic() - begun:.1f} s")
    else:
        click.echo(f"Nothing runs in {place.root}")
    if purge and place.root.exists():
        lifecycle.purge(place)
        click.echo(f"Deleted the fleet's data in {place.root}")
