# ruff: noqa: INP001  a module beside what it helps to write, not a package
"""The reference page of the components of the serving stack, from their table."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from modelplane.api.clouds.serving_stack import Versions
from modelplane.api.fields.cluster.stack_components import MAX_VALUES_BYTES
from modelplane.compose.releases import ROLLBACK_LIMIT, WAIT_TIMEOUT
from modelplane.compose.serving_stack.component import Component
from modelplane.compose.serving_stack.component_outcome import MAX_DEPTH
from modelplane.compose.serving_stack.table import COMPONENTS

_TEMPLATE = Path(__file__).with_name("components.md.template")
_COLUMNS = ("Component", "Chart, version, namespace", "Needs", "Sign on the cluster", "Profiles")


def components_page() -> str:
    """Return the page as Markdown."""
    lines = [_row(_COLUMNS), _row("---" for _ in _COLUMNS), *(_row(_cells(row)) for row in COMPONENTS)]
    return _TEMPLATE.read_text(encoding="utf-8").format(
        table="\n".join(lines),
        bytes=MAX_VALUES_BYTES,
        depth=MAX_DEPTH,
        attempts=ROLLBACK_LIMIT,
        wait=WAIT_TIMEOUT,
    )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Component) -> Iterator[str]:
    chart = f"`{row.chart.address}`" if row.chart else ""
    if row.part_of:
        chart = f"settings of {row.part_of}"
    version = f"`{row.version(Versions())}`" if row.version else ""
    namespace = f"`{row.namespace}`" if row.namespace else ""
    profiles = {"Standard": row.in_standard, "Minimal": row.in_minimal, "required": not row.optional}
    yield from (
        f"`{row.name}`: {row.purpose}",
        "<br>".join(filter(None, (chart or "objects", version, namespace))),
        ", ".join(f"`{each}`" for each in row.after),
        f"`{row.found_by}`" if row.found_by else "",
        ", ".join(name for name, holds in profiles.items() if holds),
    )
