"""``modelplane top``: show a fleet in the terminal, live."""

import asyncio
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.inspect.dashboard import watch_fleet
from modelplane.cli.live import Live, add_live_options
from modelplane.cli.tables import clean_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from modelplane.dashboard.pages import View
    from modelplane.dashboard.snapshot import Readiness

_EVERY_S: Final = 1.0
_TABLES: Final = 3
_LINES_OF_A_TABLE: Final = 4
"""Its title, its head, the count of what it leaves out, and an empty line."""


@click.command()
@click.option("--once", is_flag=True, help="Print every row once, and end.")
@add_live_options
def top(*, once: bool, live: Live) -> None:
    """Show the clusters, deployments and services of a fleet in the terminal, live.

    What is not ready comes first. Ctrl-C ends it.
    """
    from rich.console import Console
    from rich.live import Live as Screen

    console = Console(highlight=False, markup=False)

    async def show() -> None:
        async with watch_fleet(live) as view:
            if once:
                if not console.is_terminal:
                    console.width = 100_000
                console.print(build_screen(view(), None))
                return
            with Screen(console=console, screen=True, auto_refresh=False) as drawn:
                while True:
                    most = (shutil.get_terminal_size().lines - 2) // _TABLES - _LINES_OF_A_TABLE
                    drawn.update(build_screen(view(), max(most, 1)), refresh=True)
                    await asyncio.sleep(_EVERY_S)

    asyncio.run(show())


def build_screen(view: "View", most: int | None) -> "RenderableType":
    """Return the tables of a view, each with at most so many rows, or all."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"As of {view.now:%H:%M:%S} UTC", style="dim")]
    parts += [Text(clean_text(problem), style="bold red") for problem in view.problems]
    clusters = sorted(view.snapshot.clusters, key=lambda cluster: cluster.readiness.ready)
    parts += _table(
        "Clusters",
        ("CLUSTER", "REGION", "STATE", "SINCE", "USED", "FREE", "REPLICAS", "WHY NOT"),
        (
            (
                cluster.name,
                cluster.region or "-",
                *_state(cluster.readiness, view.now),
                str(cluster.devices.used),
                str(cluster.devices.free),
                str(cluster.replicas),
                cluster.readiness.why,
            )
            for cluster in clusters
        ),
        most,
    )
    deployments = (
        (
            f"{deployment.namespace}/{deployment.name}",
            *_state(deployment.readiness, view.now),
            f"{deployment.serving} of {deployment.desired}",
            f"{deployment.placed} ({deployment.spot} spot)" if deployment.spot else str(deployment.placed),
            deployment.cost or "-",
            deployment.diagnosis or deployment.readiness.why,
        )
        for deployment in view.snapshot.deployments
    )
    columns = ("DEPLOYMENT", "STATE", "SINCE", "SERVING", "PLACED", "COST AN HOUR", "WHY NOT")
    parts += _table("Deployments", columns, deployments, most)
    parts += _table("Services", _SERVICE_COLUMNS, _services(view), most)
    return Group(*parts)


_SERVICE_COLUMNS: Final = (
    *("SERVICE", "STATE", "SINCE", "ENDPOINTS"),
    *("REQUESTS/S", "ERRORS", "FIRST TOKEN P50", "P95", "LAST", "WHY NOT"),
)


def _services(view: "View") -> Iterator[Sequence[str]]:
    for service in view.snapshot.services:
        name = f"{service.namespace}/{service.name}"
        rates = view.rates.get(name)
        traffic: tuple[str, ...] = ("-",) * 5
        if rates is not None:
            times = (rates.first_token_p50_ms, rates.first_token_p95_ms)
            traffic = (
                f"{rates.per_second:.3g}",
                f"{rates.errors_percent:.2g} %",
                *("-" if ms is None else f"{ms:,} ms" for ms in times),
                _age(rates.last, view.now),
            )
        yield (
            name,
            *_state(service.readiness, view.now),
            str(service.endpoints),
            *traffic,
            service.readiness.why,
        )


def _state(readiness: "Readiness", now: datetime) -> tuple[str, str]:
    since = datetime.fromisoformat(readiness.since) if readiness.since else None
    return readiness.word, "-" if since is None else _age(since, now)


def _age(at: datetime, now: datetime) -> str:
    """Return a time as an age, as kubectl writes it."""
    seconds = max(int((now - at).total_seconds()), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], most: int | None
) -> "Iterator[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    from modelplane.api.conditions.reasons import ReadyReason

    listed = list(rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis" if most else "fold")
    for row in listed[:most]:
        style = "" if ReadyReason.AVAILABLE in row else "red"
        table.add_row(*(Text(clean_text(cell), style=style) for cell in row))
    yield Text(f"\n{title}", style="bold")
    yield table if listed else Text("none", style="dim")
    if most and len(listed) > most:
        yield Text(f"and {len(listed) - most:,} more", style="dim")
