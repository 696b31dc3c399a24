"""``modelplane supervise``: keep a fleet's processes running; ``up`` starts it."""

from pathlib import Path

import click

from modelplane.local.home import Home


@click.command(hidden=True)
@click.option("--home", required=True, type=click.Path(path_type=Path))
@click.option("--binary", required=True, type=click.Path(path_type=Path))
@click.option("--process", "only", multiple=True, metavar="NAME", help="Run only these processes.")
def supervise(home: Path, binary: Path, only: tuple[str, ...]) -> None:
    """Supervise the fleet of a home, or stand by while another supervisor does."""
    from modelplane.local import settings
    from modelplane.local.supervision import processes, supervisor

    place = Home(home)
    chosen = settings.load(place)
    supervisor.supervise(place, processes.build_table(place, chosen, binary, only), chosen.list_ports())
