"""``modelplane top``: show a fleet in the terminal, live."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from modelplane.api.report_tables import Columns
from modelplane.cli.inspect.dashboard import watch_fleet
from modelplane.cli.options import format_example
from modelplane.cli.output import clean_text
from modelplane.cli.target import Target, add_target_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from modelplane.api.report_tables import Table
    from modelplane.dashboard.pages import View
    from modelplane.dashboard.snapshot import Cluster, Deployment, Readiness, Service
    from modelplane.dashboard.traffic import Rates

_EVERY_S: Final = 1.0
_TABLES: Final = 3
_LINES_OF_A_TABLE: Final = 4
"""Its title, its head, the count of what it leaves out, and an empty line."""


@click.command(epilog=format_example("modelplane top --once"))
@click.option("--once", is_flag=True, help="Print every row once, then exit.")
@add_target_options
def top(*, once: bool, target: Target) -> None:
    """Show a live view of the clusters, deployments, and services in the terminal.

    Objects that are not ready come first. Press Ctrl-C to stop.
    """
    from rich.console import Console
    from rich.live import Live as Screen

    console = Console(highlight=False, markup=False)

    async def show() -> None:
        async with watch_fleet(target) as view:
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
    tables = (
        _columns_of_clusters(view.now).tabulate("Clusters", clusters, most),
        _columns_of_deployments(view.now).tabulate("Deployments", view.snapshot.deployments, most),
        _columns_of_services(view).tabulate("Services", view.snapshot.services, most),
    )
    for table in tables:
        parts += _draw(table, is_cut=most is not None)
    return Group(*parts)


def _columns_of_clusters(now: datetime) -> "Columns[Cluster]":
    return Columns(
        ("CLUSTER", lambda cluster: cluster.name),
        ("REGION", lambda cluster: cluster.region or "-"),
        ("STATE", lambda cluster: _state(cluster.readiness)),
        ("SINCE", lambda cluster: _since(cluster.readiness, now)),
        ("USED", lambda cluster: str(cluster.devices.used)),
        ("FREE", lambda cluster: str(cluster.devices.free)),
        ("REPLICAS", lambda cluster: str(cluster.replicas)),
        ("MESSAGE", lambda cluster: cluster.readiness.why),
    )


def _columns_of_deployments(now: datetime) -> "Columns[Deployment]":
    return Columns(
        ("DEPLOYMENT", lambda deployment: f"{deployment.namespace}/{deployment.name}"),
        ("STATE", lambda deployment: _state(deployment.readiness)),
        ("SINCE", lambda deployment: _since(deployment.readiness, now)),
        ("SERVING", lambda deployment: f"{deployment.serving} of {deployment.desired}"),
        ("PLACED", lambda deployment: f"{deployment.placed}{_spot(deployment.spot)}"),
        ("COST/HOUR", lambda deployment: deployment.cost or "-"),
        ("MESSAGE", lambda deployment: deployment.diagnosis or deployment.readiness.why),
    )


def _columns_of_services(view: "View") -> "Columns[Service]":
    def describe(measure: "Callable[[Rates], str]") -> "Callable[[Service], str]":
        def describe_service(service: "Service") -> str:
            rates = view.rates.get(f"{service.namespace}/{service.name}")
            return "-" if rates is None else measure(rates)

        return describe_service

    return Columns(
        ("SERVICE", lambda service: f"{service.namespace}/{service.name}"),
        ("STATE", lambda service: _state(service.readiness)),
        ("SINCE", lambda service: _since(service.readiness, view.now)),
        ("ENDPOINTS", lambda service: str(service.endpoints)),
        ("REQUESTS/S", describe(lambda rates: f"{rates.per_second:.3g}")),
        ("ERRORS", describe(lambda rates: f"{rates.errors_percent:.2g} %")),
        ("TTFT P50", describe(lambda rates: _time(rates.first_token_p50_ms))),
        ("TTFT P95", describe(lambda rates: _time(rates.first_token_p95_ms))),
        ("LAST REQUEST", describe(lambda rates: _age(rates.last, view.now))),
        ("MESSAGE", lambda service: service.readiness.why),
    )


def _spot(count: int) -> str:
    return f" ({count} spot)" if count else ""


def _time(ms: int | None) -> str:
    return "-" if ms is None else f"{ms:,} ms"


def _state(readiness: "Readiness") -> str:
    return readiness.word


def _since(readiness: "Readiness", now: datetime) -> str:
    return _age(datetime.fromisoformat(readiness.since), now) if readiness.since else "-"


def _age(at: datetime, now: datetime) -> str:
    """Return a time as an age, as kubectl writes it."""
    seconds = max(int((now - at).total_seconds()), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _draw(table: "Table", *, is_cut: bool) -> "Iterator[RenderableType]":
    from rich.table import Table as Drawn
    from rich.text import Text

    from modelplane.api.conditions.reasons import ReadyReason

    drawn = Drawn(box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        drawn.add_column(column, no_wrap=True, overflow="ellipsis" if is_cut else "fold")
    for row in table.rows:
        style = "" if ReadyReason.AVAILABLE in row else "red"
        drawn.add_row(*(Text(clean_text(cell), style=style) for cell in row))
    yield Text(f"\n{table.title}", style="bold")
    yield drawn if table.rows else Text("none", style="dim")
    if table.left_out:
        yield Text(f"and {table.left_out:,} more", style="dim")
